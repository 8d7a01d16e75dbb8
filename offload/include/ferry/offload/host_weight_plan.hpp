// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/checkpoint.hpp>
#include <ferry/offload/host_lease.hpp>
#include <ferry/offload/module_tree.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// Where the bytes of a host weight plan are.
enum class host_weight_backing : std::uint8_t {
  checkpoint_mmap,    ///< Pages of the checkpoint's files.
  host_weight_runtime ///< A lease, in the plan's carrier.
};

[[nodiscard]] std::string_view to_string(host_weight_backing backing) noexcept;

/// Rearranges a stored tensor into the form that the model computes with, of the same type and
/// shape. Stateless, so any thread may use it.
class weight_transform {
public:
  virtual ~weight_transform() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// @pre `target` is as long as the tensor
  virtual void apply(const stored_tensor& source, mutable_bytes target) const = 0;
};

/// Where one tensor of the model comes from.
struct weight_binding {
  std::string key; ///< In the checkpoint.
  std::filesystem::path file;
  std::shared_ptr<const weight_transform> transform; ///< Null: the bytes as they are.
};

/// What a loader found out about the weights it has left where they are. The loader has bound them
/// itself, as they are stored: the backend checks that, and applies the transforms. Serves one
/// enable.
struct host_weight_plan {
  host_weight_backing backing = host_weight_backing::checkpoint_mmap;
  std::map<std::string, weight_binding> bindings; ///< By runtime name.
  std::vector<std::string> source_prefixes;       ///< The namespaces that it covers.
  std::shared_ptr<lease_carrier> carrier;         ///< Only with `host_weight_runtime`.
};

/// Why weights cannot stay where they are and the model is loaded as usual.
enum class weight_fallback : std::uint8_t {
  tensor_parallel,     ///< Each rank holds a part that no file has as it is.
  hsdp,                ///< The shards are made while loading.
  online_quantization, ///< As above, the quantized weights.
  int8_conv_rot,       ///< As above, the rotated layout.
  no_dedicated_source, ///< A DiT shares its source with other components.
  no_entries,          ///< A source has no tensor at all.
  missing_source,      ///< A file or a key that was named is not there.
  missing_tensors,     ///< The model has tensors that the checkpoint lacks.
  duplicate_entry,     ///< Two entries claim one tensor.
  custom_loader,       ///< The model's own loader changes tensors, and no adapter says how.
  metadata_mismatch,   ///< Another shape or type than the model's.
};

inline constexpr std::array all_weight_fallbacks{
    weight_fallback::tensor_parallel,     weight_fallback::hsdp,
    weight_fallback::online_quantization, weight_fallback::int8_conv_rot,
    weight_fallback::no_dedicated_source, weight_fallback::no_entries,
    weight_fallback::missing_source,      weight_fallback::missing_tensors,
    weight_fallback::duplicate_entry,     weight_fallback::custom_loader,
    weight_fallback::metadata_mismatch};

[[nodiscard]] std::string_view to_string(weight_fallback reason) noexcept;

struct no_host_weights {
  weight_fallback reason{};
  std::string detail; ///< One sentence: the thing, the value, what was expected.
};

using host_weight_planning = tl::expected<host_weight_plan, no_host_weights>;

/// Says what a custom weight loader would have made of the entries of a checkpoint.
class weight_adapter {
public:
  struct entry {
    std::string tensor; ///< Runtime name below the source's prefix.
    std::shared_ptr<const weight_transform> transform = nullptr;
  };

  virtual ~weight_adapter() = default;
  /// Returns what becomes of the entry `key`, nothing if the loader passes it over.
  [[nodiscard]] virtual std::optional<entry> adapt(std::string_view key) const = 0;
};

/// Where the weights of one component are.
struct weight_source {
  /// Goes before each key to make the runtime name: "transformer." for the DiT of that path. A
  /// source of several components has another one.
  std::string prefix;
  /// Opens the checkpoint. Not called where something else stands against a plan already.
  std::function<result<std::shared_ptr<const component_checkpoint>>()> open;
  bool custom_loader = false;                    ///< The component does not load keys as they are.
  std::shared_ptr<const weight_adapter> adapter; ///< Null: there is none.
};

/// What becomes of the weights while they are loaded.
struct weight_layout {
  std::int64_t tensor_parallel_size = 1;
  bool use_hsdp = false;
  bool online_quantization = false;
  bool int8_conv_rot = false;
};

/// Plans to leave the weights of `dits`, paths below `root`, in the files they are in. Reads the
/// tree and the headers of the files, and changes nothing. Every parameter and persistent buffer of
/// the DiTs has to have its binding; a tensor with several names needs one of them.
[[nodiscard]] host_weight_planning plan_host_weights(const std::shared_ptr<const module_node>& root,
                                                     std::span<const std::string> dits,
                                                     std::span<const weight_source> sources,
                                                     const weight_layout& layout);

} // namespace ferry
