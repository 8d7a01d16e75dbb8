// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/mapped_file.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// One tensor as a safetensors file holds it: contiguous, row-major, little-endian.
struct stored_tensor {
  std::string name; ///< Valid UTF-8, unique in its file.
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape; ///< In elements; empty for a 0-dimensional tensor.
  const_bytes bytes;               ///< Exactly shape x element size, inside the file.

  /// Returns whether the bytes start at a multiple of the element size. The format does not promise
  /// it. A view needs it; copy the bytes of a tensor that is not aligned.
  [[nodiscard]] bool aligned() const noexcept;
};

/// What a safetensors file says, with the bytes left where they are.
struct safetensors_contents {
  std::vector<stored_tensor> tensors; ///< Sorted by name.
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Reads the header of a safetensors file whose bytes are in memory. `label` names it in messages.
///
/// The file is taken to be hostile. What is returned has passed every check: unique names, known
/// dtypes, sizes that agree with shapes, and data that the tensors cover completely, in any order,
/// without overlap and without a hole. Holes are refused because the format forbids them and a
/// damaged header is the usual reason for one. Nothing of the data is read.
/// @return `invalid_checkpoint` with the tensor, the value and what was expected
[[nodiscard]] result<safetensors_contents> read_safetensors(const_bytes file,
                                                            std::string_view label);

/// A safetensors file, mapped. Immutable, so every thread may read it. Shared, because tensors that
/// are views of it have to keep it alive.
///
/// Of a file that somebody truncates while it is mapped the lost part reads as zeros: see
/// `check_lost_pages`.
class safetensors_file {
public:
  /// Maps the regular file `path` and reads its header.
  /// @return `invalid_checkpoint` also if there is no such file or it may not be read
  [[nodiscard]] static result<std::shared_ptr<const safetensors_file>>
  open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
  [[nodiscard]] const std::vector<stored_tensor>& tensors() const noexcept;
  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& metadata() const noexcept;

  /// Returns the tensor called `name`, or null.
  [[nodiscard]] const stored_tensor* find(std::string_view name) const noexcept;

private:
  explicit safetensors_file(const std::filesystem::path& path);
  [[nodiscard]] std::string contents_at(std::uint64_t offset) const;

  mapped_file file_;
  safetensors_contents contents_;
};

} // namespace ferry
