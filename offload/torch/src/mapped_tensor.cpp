// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/torch/mapped_tensor.hpp"

#include <ferry/platform/conversion.hpp>
#include <ferry/platform/error.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace ferry {
namespace {

using type_pair = std::pair<dtype, at::ScalarType>;

constexpr std::array<type_pair, 12> types = {{
    {dtype::boolean, at::kBool},
    {dtype::u8, at::kByte},
    {dtype::i8, at::kChar},
    {dtype::i16, at::kShort},
    {dtype::i32, at::kInt},
    {dtype::i64, at::kLong},
    {dtype::f8_e4m3, at::kFloat8_e4m3fn},
    {dtype::f8_e5m2, at::kFloat8_e5m2},
    {dtype::f16, at::kHalf},
    {dtype::bf16, at::kBFloat16},
    {dtype::f32, at::kFloat},
    {dtype::f64, at::kDouble},
}};

using mapping_owner = std::shared_ptr<const void>;

void release_mapping(void* owner) {
  delete static_cast<mapping_owner*>(owner);
}

/// What a storage holds on to whose bytes have yet to be converted.
struct unconverted {
  mapping_owner owner;
  conversion how;
};

void release_unconverted(void* context) {
  delete static_cast<unconverted*>(context);
}

const at::DataPtr& data_of(const c10::Storage& storage) {
  return storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
}

at::Tensor tensor_on(c10::Storage storage, dtype type, at::IntArrayRef shape) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      at::scalarTypeToTypeMeta(scalar_type_of(type)));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

std::optional<std::size_t> bytes_of(dtype type, at::IntArrayRef shape) noexcept {
  auto bytes = element_size(type);
  for (auto extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes))
      return std::nullopt;
  return bytes;
}

void require_bytes(const_bytes bytes, dtype type, at::IntArrayRef shape) {
  if (bytes_of(type, shape) != bytes.size())
    throw ferry_error({errc::invalid_checkpoint, "a tensor of type " +
                                                     std::string(to_string(type)) + " and shape " +
                                                     c10::str(shape) + " does not have " +
                                                     std::to_string(bytes.size()) + " bytes"});
}

} // namespace

std::optional<dtype> dtype_of(at::ScalarType type) noexcept {
  const auto* found = std::ranges::find(types, type, &type_pair::second);
  return found == types.end() ? std::nullopt : std::optional(found->first);
}

at::ScalarType scalar_type_of(dtype type) noexcept {
  return std::ranges::find(types, type, &type_pair::first)->second;
}

at::Tensor tensor_over(std::shared_ptr<const void> owner, const_bytes bytes, dtype type,
                       at::IntArrayRef shape) {
  require_bytes(bytes, type, shape);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % element_size(type) != 0) {
    auto copy = at::empty(shape, at::dtype(scalar_type_of(type)));
    std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
    return copy;
  }

  auto keep = std::make_unique<mapping_owner>(std::move(owner));
  c10::DataPtr data(const_cast<std::byte*>(bytes.data()), keep.release(), &release_mapping,
                    at::kCPU);
  return tensor_on({c10::Storage::use_byte_size_t(), bytes.size(), std::move(data)}, type, shape);
}

at::Tensor converted_tensor_over(std::shared_ptr<const void> owner, const_bytes bytes, dtype stored,
                                 dtype type, at::IntArrayRef shape, const std::string& name) {
  const auto how = conversion_between(stored, type);
  if (!how)
    throw ferry_error(
        {errc::unsupported, "tensor '" + name + "' is " + std::string(to_string(stored)) +
                                ", and nothing converts that to " + std::string(to_string(type))});
  if (*how == conversion::none)
    return tensor_over(std::move(owner), bytes, type, shape);
  require_bytes(bytes, stored, shape);
  if (*how == conversion::f32_to_f16 && overflows(*how, bytes))
    throw ferry_error({errc::unsupported, "tensor '" + name + "' has values beyond the range of " +
                                              std::string(to_string(type)) + ", which is 65504"});

  auto keep = std::make_unique<unconverted>(unconverted{std::move(owner), *how});
  c10::DataPtr data(const_cast<std::byte*>(bytes.data()), keep.release(), &release_unconverted,
                    at::kCPU);
  c10::Storage storage(c10::Storage::use_byte_size_t(), converted_bytes(*how, bytes.size()),
                       std::move(data));
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "tensor '" + name + "' is kept as " + std::string(to_string(stored)) +
      " and has no memory as " + std::string(to_string(type)) +
      " until its model is offloaded or made resident");
  return tensor_on(std::move(storage), type, shape);
}

bool is_mapped(const c10::Storage& storage) noexcept {
  if (storage.unsafeGetStorageImpl() == nullptr)
    return false;
  const auto release = data_of(storage).get_deleter();
  return release == &release_mapping || release == &release_unconverted;
}

conversion conversion_of(const c10::Storage& storage) noexcept {
  if (storage.unsafeGetStorageImpl() == nullptr ||
      data_of(storage).get_deleter() != &release_unconverted)
    return conversion::none;
  return static_cast<const unconverted*>(data_of(storage).get_context())->how;
}

} // namespace ferry
