// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/torch/mapped_tensor.hpp"

#include <ferry/platform/error.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace ferry {
namespace {

using mapping_owner = std::shared_ptr<const void>;

void release_mapping(void* owner) {
  delete static_cast<mapping_owner*>(owner);
}

std::optional<std::size_t> bytes_of(dtype type, at::IntArrayRef shape) noexcept {
  auto bytes = element_size(type);
  for (auto extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes))
      return std::nullopt;
  return bytes;
}

} // namespace

std::optional<dtype> dtype_of(at::ScalarType type) noexcept {
  switch (type) {
    case at::kBool: return dtype::boolean;
    case at::kByte: return dtype::u8;
    case at::kChar: return dtype::i8;
    case at::kShort: return dtype::i16;
    case at::kInt: return dtype::i32;
    case at::kLong: return dtype::i64;
    case at::kFloat8_e4m3fn: return dtype::f8_e4m3;
    case at::kFloat8_e5m2: return dtype::f8_e5m2;
    case at::kHalf: return dtype::f16;
    case at::kBFloat16: return dtype::bf16;
    case at::kFloat: return dtype::f32;
    case at::kDouble: return dtype::f64;
    default: return std::nullopt;
  }
}

at::ScalarType scalar_type_of(dtype type) noexcept {
  switch (type) {
    case dtype::boolean: return at::kBool;
    case dtype::u8: return at::kByte;
    case dtype::i8: return at::kChar;
    case dtype::i16: return at::kShort;
    case dtype::i32: return at::kInt;
    case dtype::i64: return at::kLong;
    case dtype::f8_e4m3: return at::kFloat8_e4m3fn;
    case dtype::f8_e5m2: return at::kFloat8_e5m2;
    case dtype::f16: return at::kHalf;
    case dtype::bf16: return at::kBFloat16;
    case dtype::f32: return at::kFloat;
    case dtype::f64: return at::kDouble;
  }
  return at::kByte;
}

at::Tensor tensor_over(std::shared_ptr<const void> owner, const_bytes bytes, dtype type,
                       at::IntArrayRef shape) {
  if (bytes_of(type, shape) != bytes.size())
    throw ferry_error({errc::invalid_checkpoint,
                       "a tensor of type " + std::string(to_string(type)) + " and shape " +
                           c10::str(shape) + " does not have " + std::to_string(bytes.size()) +
                           " bytes"});
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % element_size(type) != 0) {
    auto copy = at::empty(shape, at::dtype(scalar_type_of(type)));
    std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
    return copy;
  }

  auto keep = std::make_unique<mapping_owner>(std::move(owner));
  c10::DataPtr data(const_cast<std::byte*>(bytes.data()), keep.release(), &release_mapping,
                    at::kCPU);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes.size(), std::move(data));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      at::scalarTypeToTypeMeta(scalar_type_of(type)));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

bool is_mapped(const c10::Storage& storage) noexcept {
  auto* impl = storage.unsafeGetStorageImpl();
  return impl != nullptr &&
         impl->_mutable_data_ptr_no_checks().get_deleter() == &release_mapping;
}

} // namespace ferry
