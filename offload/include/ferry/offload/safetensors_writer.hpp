// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/platform/device.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ferry {

/// A tensor that is going to be written.
struct tensor_declaration {
  std::string name; ///< Valid UTF-8, unique in its file.
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape; ///< In elements, none negative.

  /// Returns the size of the data in bytes.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
};

using safetensors_metadata = std::map<std::string, std::string, std::less<>>;

/// Writes one safetensors file front to back, without holding its data.
///
/// The data starts at a multiple of 256 bytes, and tensors with wider elements come first, so that
/// every tensor is aligned to its element size. The file grows under the name `path` plus `.part`
/// and gets its own name in `finish`: whoever finds `path` finds it complete. Used by one thread at
/// a time.
class safetensors_writer {
public:
  /// Creates the file and writes its header.
  /// @throws ferry_error `io_failure` with the path and the operating system's reason
  safetensors_writer(std::filesystem::path path, std::vector<tensor_declaration> tensors,
                     const safetensors_metadata& metadata);
  safetensors_writer(const safetensors_writer&) = delete;
  safetensors_writer& operator=(const safetensors_writer&) = delete;

  /// Removes what was written unless `finish` has succeeded.
  ~safetensors_writer();

  /// Returns the tensors in the order in which their data is expected. It is the order they were
  /// given in, except that wider elements come first.
  [[nodiscard]] const std::vector<tensor_declaration>& tensors() const noexcept { return tensors_; }

  /// Writes the next bytes of the data; a call may end in the middle of a tensor.
  /// @pre no more bytes in all than the declarations ask for
  /// @throws ferry_error `io_failure`; nothing more can be written then
  void append(const_bytes data);

  /// Completes the file and gives it its name, replacing a file that had it.
  /// @pre all data has been appended
  /// @throws ferry_error `io_failure`
  void finish();

private:
  void flush();
  [[nodiscard]] std::filesystem::path unfinished() const;

  std::filesystem::path path_;
  std::vector<tensor_declaration> tensors_;
  std::uint64_t missing_ = 0;
  std::vector<std::byte> buffer_;
  int descriptor_ = -1;
};

} // namespace ferry
