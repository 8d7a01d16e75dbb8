// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "storage_unit.hpp"

#include <ferry/platform/conversion.hpp>
#include <ferry/platform/error.hpp>

#include "ferry/torch/mapped_tensor.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace ferry {
namespace {

/// Returns where the storage begins whose byte `begin` is at `address`. That may be outside of the
/// memory at hand: only bytes from `begin` on are ever used.
void* storage_start(void* address, std::size_t begin) noexcept {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) - begin);
}

c10::Storage make_storage(std::size_t bytes, c10::DataPtr data, c10::Allocator* allocator) {
  return {c10::Storage::use_byte_size_t(), bytes, std::move(data), allocator, allocator != nullptr};
}

/// Also of a storage whose bytes are of another type than its tensors.
const std::byte* start_of(const c10::Storage& storage) noexcept {
  return static_cast<const std::byte*>(
      storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
}

} // namespace

std::string parked_message(std::string_view path) {
  return "block '" + std::string(path) + "' is not on the device";
}

storage_unit::storage_unit(std::string path, packed_layout layout, std::vector<tensor_impl> tensors,
                           at::Device computes_on)
    : path_(std::move(path)), layout_(std::move(layout)), tensors_(std::move(tensors)),
      ranges_(layout_.storages.size()), computes_on_(computes_on),
      nothing_(make_storage(0, c10::DataPtr(nullptr, computes_on), nullptr)),
      ordinary_nothing_(tensors_.size()) {
  for (std::size_t i = 0; i != tensors_.size(); ++i) {
    if (layout_.tensors[i].storage == packed_tensor::no_storage)
      continue;
    auto& in = ranges_[layout_.tensors[i].storage];
    in.original = tensors_[i]->storage();
    ++in.tensors;
  }

  std::size_t longest = 0;
  for (std::size_t i = 0; i != ranges_.size(); ++i) {
    ranges_[i].slot = make_slot(i);
    longest = std::max(longest, layout_.storages[i].begin + layout_.storages[i].bytes);
  }
  placeholder_ = make_storage(longest, c10::DataPtr(nullptr, computes_on_), nullptr);
  placeholder_.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      parked_message(path_));
}

c10::Storage storage_unit::make_slot(std::size_t storage) const {
  const auto& place = layout_.storages[storage];
  return make_storage(place.begin + place.bytes, c10::DataPtr(nullptr, computes_on_), nullptr);
}

// A tensor's device is that of its storage, and part of the keys that operators are chosen by.
// Those without bytes are never pointed at anything, so that their storage is exchanged here.
void storage_unit::move_tensors(at::Device to) noexcept {
  if (computes_on_.is_cpu())
    return;
  for (std::size_t i = 0; i != tensors_.size(); ++i) {
    auto& tensor = *tensors_[i];
    if (tensor.device_type() == at::kMeta)
      continue;
    tensor._change_backend_component_keys(to);
    if (layout_.tensors[i].storage != packed_tensor::no_storage)
      continue;
    if (to.is_cpu()) {
      tensor.set_storage_keep_dtype(std::exchange(ordinary_nothing_[i], c10::Storage()));
    } else {
      ordinary_nothing_[i] = tensor.storage();
      tensor.set_storage_keep_dtype(nothing_);
    }
  }
}

template <class Pick>
void storage_unit::point_tensors(const Pick& pick) {
  for (std::size_t i = 0; i != tensors_.size(); ++i) {
    const auto storage = layout_.tensors[i].storage;
    if (storage != packed_tensor::no_storage)
      tensors_[i]->set_storage_keep_dtype(pick(storage));
  }
}

std::vector<const_bytes> storage_unit::originals() const {
  FERRY_ASSERT(kept_);
  std::vector<const_bytes> all;
  all.reserve(ranges_.size());
  for (std::size_t i = 0; i != ranges_.size(); ++i) {
    const auto& place = layout_.storages[i];
    const auto how = originals_conversion(i);
    all.emplace_back(start_of(ranges_[i].original) + unconverted_bytes(how, place.begin),
                     unconverted_bytes(how, place.bytes));
  }
  return all;
}

conversion storage_unit::originals_conversion(std::size_t storage) const {
  // What was dropped was converted from nothing.
  return kept_ ? conversion_of(ranges_[storage].original) : conversion::none;
}

memory_kind storage_unit::originals_kind(std::size_t storage) const {
  FERRY_ASSERT(kept_);
  return is_mapped(ranges_[storage].original) ? memory_kind::mapped : memory_kind::pageable;
}

mutable_bytes storage_unit::writable_original(std::size_t storage) {
  FERRY_ASSERT(kept_ && originals_conversion(storage) == conversion::none);
  const auto& place = layout_.storages[storage];
  auto& original = ranges_[storage].original;
  if (is_mapped(original)) {
    const auto* mapped = static_cast<const std::byte*>(original.data()) + place.begin;
    original = make_fresh(storage, {mapped, place.bytes});
    if (state_ == state::ordinary)
      for (std::size_t i = 0; i != tensors_.size(); ++i)
        if (layout_.tensors[i].storage == storage)
          tensors_[i]->set_storage_keep_dtype(original);
  }
  auto* start =
      static_cast<std::byte*>(original.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get());
  return {start + place.begin, place.bytes};
}

// A view that a body made of a weight and that outlives the call still points at the slot, which
// will soon hold another block. It keeps the storage, with the placeholder's message on it.
void storage_unit::replace_escaped_slots() {
  for (std::size_t i = 0; i != ranges_.size(); ++i) {
    auto& in = ranges_[i];
    if (in.slot.use_count() == in.tensors + 1)
      continue;
    auto escaped = std::exchange(in.slot, make_slot(i));
    escaped.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
        parked_message(path_));
  }
}

void storage_unit::park() {
  if (state_ == state::parked)
    return;
  if (state_ == state::bound)
    replace_escaped_slots();
  if (state_ == state::ordinary)
    move_tensors(computes_on_);
  point_tensors([&](std::size_t) -> const c10::Storage& { return placeholder_; });
  state_ = state::parked;
}

void storage_unit::bind(std::byte* base) noexcept {
  if (state_ == state::ordinary)
    move_tensors(computes_on_);
  for (std::size_t i = 0; i != ranges_.size(); ++i) {
    const auto& place = layout_.storages[i];
    auto* start = storage_start(base + place.offset, place.begin);
    ranges_[i].slot.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().unsafe_reset_data_and_ctx(
        start);
  }
  point_tensors([&](std::size_t storage) -> const c10::Storage& { return ranges_[storage].slot; });
  state_ = state::bound;
}

void storage_unit::bind_originals() noexcept {
  FERRY_ASSERT(kept_ && computes_on_.is_cpu());
  point_tensors(
      [&](std::size_t storage) -> const c10::Storage& { return ranges_[storage].original; });
  state_ = state::in_place;
}

void storage_unit::drop_originals() noexcept {
  FERRY_ASSERT(state_ != state::ordinary);
  for (auto& each : ranges_)
    each.original = c10::Storage();
  kept_ = false;
}

c10::Storage storage_unit::make_fresh(std::size_t storage, const_bytes contents) const {
  const auto& place = layout_.storages[storage];
  auto* allocator = c10::GetCPUAllocator();
  auto memory = allocator->allocate(place.bytes);
  std::memcpy(memory.get(), contents.data(), place.bytes);
  if (place.begin == 0)
    return make_storage(place.bytes, std::move(memory), allocator);
  auto* start = storage_start(memory.get(), place.begin);
  const auto release = memory.get_deleter();
  return make_storage(place.begin + place.bytes,
                      c10::DataPtr(start, memory.release_context(), release, at::kCPU), nullptr);
}

void storage_unit::restore(const_bytes master) {
  if (state_ == state::ordinary)
    return;
  std::vector<c10::Storage> fresh;
  if (!kept_) {
    if (master.size() < layout_.bytes)
      throw ferry_error({.code = errc::invalid_argument,
                         .detail = "restoring needs a master of " + std::to_string(layout_.bytes) +
                                   " bytes, not " + std::to_string(master.size()) +
                                   ": the originals were dropped",
                         .block = path_});
    fresh.reserve(ranges_.size());
    for (std::size_t i = 0; i != ranges_.size(); ++i)
      fresh.push_back(
          make_fresh(i, master.subspan(layout_.storages[i].offset, layout_.storages[i].bytes)));
  }
  park();

  for (std::size_t i = 0; i != fresh.size(); ++i)
    ranges_[i].original = std::move(fresh[i]);
  kept_ = true;
  move_tensors(at::kCPU);
  point_tensors(
      [&](std::size_t storage) -> const c10::Storage& { return ranges_[storage].original; });
  state_ = state::ordinary;
}

} // namespace ferry
