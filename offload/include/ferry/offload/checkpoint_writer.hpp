// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/safetensors_writer.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace ferry {

/// Fills `chunk` with the bytes of `tensor` from `offset` on. Called with rising offsets, tensor
/// after tensor; both are multiples of the element size. What it throws ends the writing.
using tensor_source = std::function<void(const tensor_declaration& tensor, std::uint64_t offset,
                                         mutable_bytes chunk)>;

/// Writes the weights of one component into the existing `directory` the way diffusers does:
/// `<stem>.safetensors`, or, where that would hold more than `most_bytes_per_file`, several files
/// `<stem>-00001-of-00003.safetensors` and the index `<stem>.safetensors.index.json`.
///
/// Tensors keep their order. One that is larger than the limit has a file of its own. Holds no more
/// than one chunk of a few MiB at a time.
/// @pre names are unique and valid UTF-8
/// @throws ferry_error `io_failure`; files that were complete stay
void write_component(const std::filesystem::path& directory, std::string_view stem,
                     const std::vector<tensor_declaration>& tensors,
                     std::uint64_t most_bytes_per_file, const tensor_source& source);

} // namespace ferry
