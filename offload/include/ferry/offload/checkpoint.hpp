// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/safetensors.hpp>
#include <ferry/platform/error.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// The weights of one component, from one safetensors file or from several with an index.
///
/// Immutable, so every thread may read it. The bytes of its tensors are pages of the mapped files
/// and stay valid as long as any shared pointer to the checkpoint does: a tensor made from them
/// keeps one.
class component_checkpoint {
public:
  /// Opens the weights in `directory`: `diffusion_pytorch_model.safetensors` or
  /// `model.safetensors`, or the index of the same name plus `.index.json` with every file that it
  /// names.
  ///
  /// An index may name files of the directory itself only. A file may be a symbolic link if it
  /// leads to another file of the directory or, as in the Hugging Face cache, from a snapshot to
  /// the `blobs` next to it. Refused are a tensor that its file does not hold or that two files do,
  /// and a directory that offers two sets of weights: one of the two is stale. Tensors that an
  /// index does not mention are tensors all the same.
  /// @return `invalid_checkpoint` with the file, the tensor, the value and what was expected
  [[nodiscard]] static result<std::shared_ptr<const component_checkpoint>>
  open(const std::filesystem::path& directory);

  [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }
  [[nodiscard]] const std::vector<std::shared_ptr<const safetensors_file>>& files() const noexcept;

  /// Returns all tensors, sorted by name.
  [[nodiscard]] const std::vector<const stored_tensor*>& tensors() const noexcept;

  /// Returns the tensor called `name`, or null.
  [[nodiscard]] const stored_tensor* find(std::string_view name) const noexcept;

  /// Returns the bytes of all tensors together.
  [[nodiscard]] std::uint64_t total_bytes() const noexcept;

private:
  explicit component_checkpoint(std::filesystem::path directory);

  [[nodiscard]] result<void> open_single(const std::filesystem::path& file);
  [[nodiscard]] result<void> open_sharded(const std::filesystem::path& index);
  void add(std::shared_ptr<const safetensors_file> file);

  std::filesystem::path directory_;
  std::vector<std::shared_ptr<const safetensors_file>> files_;
  std::vector<const stored_tensor*> tensors_;
};

} // namespace ferry
