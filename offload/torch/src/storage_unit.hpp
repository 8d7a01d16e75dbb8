// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/pipeline.hpp>

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// What a tensor of the unit called `path` says when it is used while parked.
[[nodiscard]] std::string parked_message(std::string_view path);

/// Binds tensors by swapping the storages under them: the original, one storage a range of the slot
/// that `bind` re-points, and one placeholder for the whole unit. The tensors are on `computes_on`
/// whenever they are not ordinary, also those without bytes.
class storage_unit final : public weight_unit {
public:
  using tensor_impl = c10::intrusive_ptr<c10::TensorImpl>;

  /// @param tensors go with `layout.tensors`, in order
  storage_unit(std::string path, packed_layout layout, std::vector<tensor_impl> tensors,
               at::Device computes_on);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const packed_layout& layout() const override { return layout_; }
  [[nodiscard]] std::vector<const_bytes> originals() const override;
  [[nodiscard]] memory_kind originals_kind(std::size_t storage) const override;
  [[nodiscard]] conversion originals_conversion(std::size_t storage) const override;

  [[nodiscard]] mutable_bytes writable_original(std::size_t storage) override;
  void park() override;
  void bind(std::byte* base) noexcept override;
  void bind_originals() noexcept override;
  void drop_originals() noexcept override;
  void restore(const_bytes master) override;

private:
  enum class state : std::uint8_t { ordinary, parked, bound, in_place };

  /// One range of the packed bytes.
  struct range {
    c10::Storage original;
    c10::Storage slot;
    std::size_t tensors = 0; ///< Of this unit, that lie in it.
  };

  [[nodiscard]] c10::Storage make_slot(std::size_t storage) const;
  void move_tensors(at::Device to) noexcept;
  [[nodiscard]] c10::Storage make_fresh(std::size_t storage, const_bytes contents) const;
  void replace_escaped_slots();
  template <class Pick>
  void point_tensors(const Pick& pick);

  std::string path_;
  packed_layout layout_;
  std::vector<tensor_impl> tensors_;
  std::vector<range> ranges_;
  at::Device computes_on_;
  c10::Storage placeholder_;
  c10::Storage nothing_; ///< Of all tensors without bytes, while not ordinary.
  std::vector<c10::Storage> ordinary_nothing_; ///< Of each tensor without bytes, meanwhile.
  state state_ = state::ordinary;
  bool kept_ = true; ///< The originals are still there.
};

} // namespace ferry
