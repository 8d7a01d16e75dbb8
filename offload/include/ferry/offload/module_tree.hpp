// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/platform/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry {

enum class tensor_role : std::uint8_t {
  parameter,
  buffer,
  unregistered, ///< A tensor member that the module did not register; found by enumeration only.
};

/// One tensor as a node holds it.
struct tensor_info {
  std::string name; ///< In its node, without the path.
  tensor_role role = tensor_role::parameter;
  bool persistent = true; ///< False for a buffer that checkpoints leave out.
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;   ///< In elements; empty for a 0-dimensional tensor.
  std::vector<std::int64_t> strides; ///< In elements; 0 for an expanded dimension.
  std::int64_t storage_offset = 0;   ///< In elements.
  object_id identity{};              ///< Equal for one tensor object under two names.
  object_id owner{};                 ///< The node that holds it.
  object_id storage{};               ///< Equal for tensors that share memory; 0 if there is none.
  std::size_t storage_bytes = 0;
  bool meta = false;                     ///< Has a shape but no memory yet.
  conversion convert = conversion::none; ///< What makes its bytes of those that are kept.
};

/// What a named attribute of a node turned out to be.
enum class attribute_kind : std::uint8_t { missing, null, module, other };

/// How a component is brought in and out when it manages its own residency.
struct staging_methods {
  bool load_to_device = false;
  bool offload_to_cpu = false;
};

/// Where a component says its blocks are, when the pipeline's plan does not.
struct block_declaration {
  std::vector<std::string> attributes;
  bool deprecated_spelling = false;
};

/// One module of a pipeline, seen through whatever holds it: a C++ torch module today.
///
/// Reading a node changes nothing. Nodes are handed out by shared pointer; two nodes with equal
/// `identity` are the same module reached by two paths.
class module_node {
public:
  using child = std::pair<std::string, std::shared_ptr<const module_node>>;

  module_node() = default;
  module_node(const module_node&) = delete;
  module_node& operator=(const module_node&) = delete;
  virtual ~module_node() = default;

  [[nodiscard]] virtual object_id identity() const = 0;
  [[nodiscard]] virtual std::string_view type_name() const = 0;

  /// Returns the direct children in declaration order. A list's children are named "0", "1", ...
  [[nodiscard]] virtual std::vector<child> children() const = 0;

  /// Returns the node's own tensors, not those of its children.
  [[nodiscard]] virtual std::vector<tensor_info> tensors() const = 0;

  /// Returns whether `tensors()` has one of that role, without describing any.
  [[nodiscard]] virtual bool holds(tensor_role role) const = 0;

  /// Returns whether the children form an ordered list.
  [[nodiscard]] virtual bool is_list() const = 0;

  /// Returns what `name` is. Children answer `module`.
  [[nodiscard]] virtual attribute_kind attribute(std::string_view name) const = 0;

  [[nodiscard]] virtual std::optional<block_declaration> declared_blocks() const = 0;
  [[nodiscard]] virtual staging_methods staging() const = 0;

  /// Returns false for a stand-in on a rank that does not own the component, nothing if the
  /// component does not say.
  [[nodiscard]] virtual std::optional<bool> is_loaded() const = 0;

  /// @pre the matching member of `staging()`
  virtual void load_to_device() const = 0;
  virtual void offload_to_cpu() const = 0;
};

/// Walks a dotted path from `from`. Returns null if a segment is not a child module.
[[nodiscard]] std::shared_ptr<const module_node>
find_node(const std::shared_ptr<const module_node>& from, std::string_view path);

} // namespace ferry
