// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/pipeline.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::test {

/// Memory of a fake tensor. `current` is null while it is parked.
struct fake_storage {
  std::vector<std::byte> bytes;
  const_bytes mapped;                    ///< Pages of a file, in place of `bytes`; never written.
  conversion convert = conversion::none; ///< What makes the tensors' bytes of them.
  std::size_t declared_bytes = 0; ///< What the tensors are told; more than there are if it is meta.
  std::byte* current = nullptr;
  std::vector<std::byte> file; ///< Stands for the file, if there is none.

  /// Returns where the bytes are unless they are parked or bound elsewhere.
  [[nodiscard]] const_bytes original() const noexcept {
    return mapped.empty() ? const_bytes{bytes} : mapped;
  }
};

/// A tensor object; two names that hold one `fake_tensor` are tied.
struct fake_tensor {
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::int64_t storage_offset = 0;
  bool meta = false;
  std::shared_ptr<fake_storage> storage;

  /// Returns the bytes of the whole storage as the tensor sees them now.
  /// @throws std::runtime_error while parked
  [[nodiscard]] const_bytes bytes() const;
};

using fake_tensor_ptr = std::shared_ptr<fake_tensor>;

/// Makes a contiguous tensor with its own storage, every byte of it `fill`.
[[nodiscard]] fake_tensor_ptr tensor(std::vector<std::int64_t> shape, dtype type = dtype::f32,
                                     unsigned char fill = 1);

/// Makes a contiguous tensor over pages of a mapped file.
[[nodiscard]] fake_tensor_ptr mapped_tensor(const_bytes pages, std::vector<std::int64_t> shape,
                                            dtype type = dtype::f32);

/// Makes a contiguous tensor of f32 whose elements are kept as bf16, each the upper half of the f32
/// whose every byte is `fill`. It has no memory until it is bound.
[[nodiscard]] fake_tensor_ptr bf16_kept_tensor(std::vector<std::int64_t> shape, unsigned char fill);

/// Makes a tensor that has a shape and no memory.
[[nodiscard]] fake_tensor_ptr meta_tensor(std::vector<std::int64_t> shape, dtype type = dtype::f32);

/// Makes another tensor object over the storage of `base`.
[[nodiscard]] fake_tensor_ptr view(const fake_tensor_ptr& base, std::vector<std::int64_t> shape,
                                   std::vector<std::int64_t> strides, std::int64_t offset);

class fake_module;
using fake_node = std::shared_ptr<fake_module>;

/// A module made of its parts. Built by chaining:
/// `node("block")->parameter("weight", {4, 4})->child("norm", node("norm"))`.
///
/// `mutations()` lists every call that changes something; reading leaves it empty.
class fake_module final : public module_node, public std::enable_shared_from_this<fake_module> {
public:
  explicit fake_module(std::string type_name) : type_name_(std::move(type_name)) {}

  [[nodiscard]] object_id identity() const override;
  [[nodiscard]] std::string_view type_name() const override { return type_name_; }
  [[nodiscard]] std::vector<module_node::child> children() const override;
  [[nodiscard]] std::vector<tensor_info> tensors() const override;
  [[nodiscard]] bool holds(tensor_role role) const override;
  [[nodiscard]] bool is_list() const override { return list_; }
  [[nodiscard]] attribute_kind attribute(std::string_view name) const override;
  [[nodiscard]] std::optional<block_declaration> declared_blocks() const override {
    return blocks_;
  }
  [[nodiscard]] staging_methods staging() const override { return staging_; }
  [[nodiscard]] std::optional<bool> is_loaded() const override { return loaded_; }
  void load_to_device() const override { stage("load_to_device"); }
  void offload_to_cpu() const override { stage("offload_to_cpu"); }

  [[nodiscard]] const std::vector<std::string>& mutations() const noexcept { return mutations_; }
  [[nodiscard]] const std::map<std::string, fake_tensor_ptr>& own_tensors() const noexcept {
    return tensors_by_name_;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, fake_node>>&
  own_children() const noexcept {
    return children_;
  }
  /// Returns the child `path`, which must be there.
  [[nodiscard]] fake_node at(std::string_view path);

  fake_node parameter(std::string name, std::vector<std::int64_t> shape);
  fake_node parameter(std::string name, fake_tensor_ptr value);
  fake_node buffer(std::string name, fake_tensor_ptr value, bool persistent = true);
  fake_node unregistered(std::string name, fake_tensor_ptr value);
  fake_node child(std::string name, fake_node value);
  fake_node null(std::string name);
  fake_node plain(std::string name); ///< An attribute that is neither null nor a module.
  fake_node declares_blocks(std::vector<std::string> attributes, bool deprecated = false);
  fake_node stages(bool load_to_device = true, bool offload_to_cpu = true);
  fake_node refuses_to_stage(bool value = true); ///< Its staging methods throw.
  fake_node loaded(bool value);
  fake_node as_list();

private:
  struct entry {
    std::string name;
    tensor_role role;
    bool persistent;
  };

  fake_node add(std::string name, fake_tensor_ptr value, tensor_role role, bool persistent);
  void stage(const char* call) const;

  std::string type_name_;
  bool list_ = false;
  std::vector<std::pair<std::string, fake_node>> children_;
  std::vector<entry> entries_;
  std::map<std::string, fake_tensor_ptr> tensors_by_name_;
  std::map<std::string, attribute_kind, std::less<>> attributes_;
  std::optional<block_declaration> blocks_;
  staging_methods staging_;
  bool refuses_to_stage_ = false;
  std::optional<bool> loaded_;
  mutable std::vector<std::string> mutations_;
};

[[nodiscard]] fake_node node(std::string type_name);

/// Makes a block of one weight matrix of `elements` f32 values, every byte of them `fill`.
[[nodiscard]] fake_node block(std::int64_t elements = 16, unsigned char fill = 1);

/// Makes a module list.
[[nodiscard]] fake_node list(std::vector<fake_node> items);

/// Makes a list of `count` blocks, the bytes of block i all `first_fill + i`.
[[nodiscard]] fake_node blocks(std::size_t count, std::int64_t elements = 16,
                               unsigned char first_fill = 1);

/// A pipeline's own offload that notes what it is asked for and fails when it is told to.
class fake_model_offload final : public model_offload {
public:
  void enable(device& target, const model_offload_request& request) override;
  void disable() override;

  std::vector<std::string> calls; ///< "enable", "disable", in order; also those that failed.
  std::optional<model_offload_request> request;
  bool fail_enable = false;
  bool fail_disable = false;
};

/// A pipeline over fake modules. Units really re-point the fake storages, hooks are really called.
class fake_pipeline final : public pipeline {
public:
  explicit fake_pipeline(fake_node root, std::string type_name = "test.pipeline");

  [[nodiscard]] std::string_view type_name() const override { return type_name_; }
  [[nodiscard]] std::shared_ptr<const module_node> root() const override { return root_; }
  [[nodiscard]] std::optional<component_roles> declared_components() const override;
  [[nodiscard]] std::optional<offload_plan> declared_plan() const override;
  [[nodiscard]] model_offload* custom_model_offload() const override { return custom_; }
  [[nodiscard]] std::unique_ptr<weight_unit> make_unit(std::string path,
                                                       packed_layout layout) override;
  void install_block_hook(object_id block, block_id id, weight_unit& unit,
                          std::shared_ptr<block_gate> gate) override;
  void remove_block_hook(object_id block) override;
  void install_group_hook(object_id module, group_id group,
                          std::shared_ptr<group_gate> gate) override;
  void remove_group_hook(object_id module) override;

  /// Returns every changing call to the pipeline, its units and its modules, in order per object.
  [[nodiscard]] std::vector<std::string> mutations() const;

  /// Returns how often the plan was read.
  [[nodiscard]] std::size_t plan_reads() const noexcept { return plan_reads_; }
  [[nodiscard]] std::size_t hook_count() const noexcept {
    return hooks_.size() + group_hooks_.size();
  }
  [[nodiscard]] const fake_node& tree() const noexcept { return root_; }

  fake_pipeline& declare(component_roles roles);
  fake_pipeline& plan(offload_plan plan);
  fake_pipeline& offloads_itself(model_offload& own);
  /// Makes the weights that there are pages of mapped files.
  fake_pipeline& lies_in_files();
  /// Makes the `n`th call of `make_unit` or of what installs a hook from now on (0: the next)
  /// throw.
  fake_pipeline& fail_after(std::size_t n);
  /// Makes the `n`th call of `weight_unit::restore` from now on (0: the next) throw.
  fake_pipeline& fail_restore(std::size_t n);

  /// Calls the module at `path` as a model would: through its hooks if it has any. `body` sees the
  /// module while its weights are usable, and may throw.
  void call(std::string_view path, const std::function<void(fake_module&)>& body);

  /// Calls the module `times` times in a row, as passes do that share one fetch of its weights.
  void call_together(std::string_view path, std::size_t times,
                     const std::function<void(fake_module&)>& body);

private:
  struct hook {
    block_id id{};
    weight_unit* unit = nullptr;
    std::shared_ptr<block_gate> gate;
  };

  struct group_hook {
    group_id group{};
    std::shared_ptr<group_gate> gate;
  };

  void count_down(const char* what);
  void call_block(fake_module& called, std::size_t times,
                  const std::function<void(fake_module&)>& body);

  fake_node root_;
  std::string type_name_;
  std::optional<component_roles> roles_;
  std::optional<offload_plan> plan_;
  model_offload* custom_ = nullptr;
  std::optional<std::size_t> failing_;
  std::map<object_id, hook> hooks_;
  std::map<object_id, group_hook> group_hooks_;
  std::shared_ptr<std::vector<std::string>> log_;
  std::shared_ptr<std::optional<std::size_t>> failing_restore_;
  mutable std::size_t plan_reads_ = 0;
};

} // namespace ferry::test
