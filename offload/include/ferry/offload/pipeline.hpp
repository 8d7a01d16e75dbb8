// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/block_gate.hpp>
#include <ferry/offload/group_gate.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/offload/model_offload.hpp>
#include <ferry/offload/module_tree.hpp>
#include <ferry/offload/packing.hpp>
#include <ferry/offload/plan.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry {

/// The tensors of one unit, as something that can be pointed at other memory. Tensor objects keep
/// their identity, shape, strides, offset and flags through every call; only the memory changes.
///
/// Starts out *ordinary*: every tensor has its own memory, the original. Used by one thread at a
/// time, and destroyed only when ordinary or together with the model.
class weight_unit {
public:
  weight_unit() = default;
  weight_unit(const weight_unit&) = delete;
  weight_unit& operator=(const weight_unit&) = delete;
  virtual ~weight_unit() = default;

  [[nodiscard]] virtual const packed_layout& layout() const = 0;

  /// Returns the original bytes of each `layout().storages` entry, in that order: those of its
  /// range, or what becomes of them in `originals_conversion`.
  /// @pre `drop_originals` has not been called since the unit was last ordinary
  [[nodiscard]] virtual std::vector<const_bytes> originals() const = 0;

  /// Returns `mapped` if the original of `layout().storages[storage]` is pages of a mapped file,
  /// else `pageable`.
  [[nodiscard]] virtual memory_kind originals_kind(std::size_t storage) const = 0;

  /// Returns what makes the bytes of `layout().storages[storage]` of its original. Where that is
  /// something, the tensors have no memory while they are ordinary. Nothing for dropped originals.
  [[nodiscard]] virtual conversion originals_conversion(std::size_t storage) const {
    static_cast<void>(storage);
    return conversion::none;
  }

  /// Returns the original of `layout().storages[storage]` for writing. Pages of a mapped file are
  /// never written: their copy in ordinary memory is the original from then on. All or nothing.
  /// @pre as `originals`, and it is not converted
  [[nodiscard]] virtual mutable_bytes writable_original(std::size_t storage) = 0;

  /// Points every tensor at a placeholder that fails loudly with the unit's name when it is used.
  /// Keeps the originals.
  virtual void park() = 0;

  /// Points every tensor at packed bytes that begin at `base`. Allocates nothing after the first
  /// call.
  virtual void bind(std::byte* base) noexcept = 0;

  /// Points every tensor at its original, where it is: what is computed with in place needs no
  /// other bytes. Undone by `park`, as `bind`. Allocates nothing.
  /// @pre as `originals`, and nothing is converted
  virtual void bind_originals() noexcept = 0;

  /// Lets go of the original memory; `restore` then needs the master. @pre nothing is converted
  virtual void drop_originals() noexcept = 0;

  /// Makes the unit ordinary again: on the originals where they were kept, otherwise on fresh
  /// memory filled from `master`, the packed bytes. All or nothing.
  virtual void restore(const_bytes master) = 0;
};

/// A diffusion pipeline as the runtime sees it. Lives at least as long as it is enabled.
///
/// One backend at a time offloads it, whichever way: see `pipeline_claim`.
class pipeline {
public:
  pipeline() = default;
  pipeline(const pipeline&) = delete;
  pipeline& operator=(const pipeline&) = delete;
  virtual ~pipeline() = default;

  /// Returns the fully qualified class name, as warnings print it.
  [[nodiscard]] virtual std::string_view type_name() const = 0;
  [[nodiscard]] virtual std::shared_ptr<const module_node> root() const = 0;

  /// Returns the components by role if the pipeline declares them; otherwise known attribute names
  /// are scanned.
  [[nodiscard]] virtual std::optional<component_roles> declared_components() const = 0;
  [[nodiscard]] virtual std::optional<offload_plan> declared_plan() const = 0;

  /// Returns the model-level offload that the pipeline brings along, null if there is none. Lives
  /// as long as the pipeline.
  [[nodiscard]] virtual model_offload* custom_model_offload() const = 0;

  /// Refuses a device on which the model does not compute, with `invalid_pipeline`.
  [[nodiscard]] virtual result<void> check_device(const device_traits& target) const {
    static_cast<void>(target);
    return {};
  }

  /// Makes the tensors of `layout` one unit. `path` names it in messages.
  [[nodiscard]] virtual std::unique_ptr<weight_unit> make_unit(std::string path,
                                                               packed_layout layout) = 0;

  /// Makes the module `block` go through `gate` whenever it is called: acquire `id`, bind `unit`,
  /// run, park, release. `unit` outlives the hook.
  /// @throws ferry_error `already_enabled` if the module has such a hook; the module is unchanged
  virtual void install_block_hook(object_id block, block_id id, weight_unit& unit,
                                  std::shared_ptr<block_gate> gate) = 0;

  /// Takes the hook off again. No hook: nothing happens.
  virtual void remove_block_hook(object_id block) = 0;

  /// Makes every entry point of `module` that is called through its hooks (forward, encode, decode)
  /// go through `gate`: enter `group`, run, leave.
  /// @throws ferry_error `already_enabled` if the module has such a hook; the module is unchanged
  virtual void install_group_hook(object_id module, group_id group,
                                  std::shared_ptr<group_gate> gate) = 0;

  /// Takes the hook off again. No hook: nothing happens.
  virtual void remove_group_hook(object_id module) = 0;

private:
  friend class pipeline_claim;

  std::atomic<bool> claimed_{false};
};

/// The right to offload a pipeline, from before the first thing is changed until all is as it was.
class pipeline_claim {
public:
  /// Keeps `subject` alive. Fails with `already_enabled` while another claim lives. Thread-safe.
  [[nodiscard]] static result<pipeline_claim> take(std::shared_ptr<pipeline> subject);
  pipeline_claim(pipeline_claim&& other) noexcept = default;
  pipeline_claim& operator=(pipeline_claim&& other) noexcept;
  ~pipeline_claim();

private:
  explicit pipeline_claim(std::shared_ptr<pipeline> subject) : subject_(std::move(subject)) {}
  void give_back() noexcept;

  std::shared_ptr<pipeline> subject_;
};

} // namespace ferry
