// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/safetensors_writer.hpp"

#include <ferry/platform/error.hpp>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <numeric>
#include <system_error>
#include <utility>

namespace ferry {

namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::size_t data_alignment = 256;
constexpr std::size_t buffer_bytes = 4 << 20; // The page cache keeps it in large pages.

ferry_error write_error(const std::filesystem::path& path, std::string_view what, int code) {
  return ferry_error({.code = errc::io_failure,
                      .detail = std::string(what) + " '" + path.string() +
                                "': " + std::generic_category().message(code)});
}

/// Returns everything in front of the data: length, JSON, and blanks up to the alignment.
std::string preamble(const std::vector<tensor_declaration>& tensors,
                     const safetensors_metadata& metadata) {
  auto header = nlohmann::json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  const auto others = header.size();
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    const auto end = offset + tensor.bytes();
    header[tensor.name] = {{"dtype", to_string(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  FERRY_ASSERT(header.size() == others + tensors.size());
  auto text = header.dump();
  const auto unpadded = length_bytes + text.size();
  text.append((data_alignment - unpadded % data_alignment) % data_alignment, ' ');

  std::string bytes;
  for (std::size_t i = 0; i < length_bytes; ++i)
    bytes += static_cast<char>(text.size() >> 8 * i & 0xff);
  return bytes + text;
}

} // namespace

std::uint64_t tensor_declaration::bytes() const noexcept {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{element_size(type)},
                         [](std::uint64_t product, std::int64_t dimension) {
                           return product * static_cast<std::uint64_t>(dimension);
                         });
}

safetensors_writer::safetensors_writer(std::filesystem::path path,
                                       std::vector<tensor_declaration> tensors,
                                       const safetensors_metadata& metadata)
    : path_(std::move(path)), tensors_(std::move(tensors)) {
  std::ranges::stable_sort(tensors_, std::greater(),
                           [](const auto& tensor) { return element_size(tensor.type); });
  const auto head = preamble(tensors_, metadata);
  missing_ = head.size();
  for (const auto& tensor : tensors_)
    missing_ += tensor.bytes();

  buffer_.reserve(buffer_bytes);
  descriptor_ = ::open(unfinished().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    throw write_error(unfinished(), "cannot create", errno);
  append(std::as_bytes(std::span(head)));
}

safetensors_writer::~safetensors_writer() {
  if (descriptor_ < 0)
    return;
  ::close(descriptor_);
  ::unlink(unfinished().c_str());
}

void safetensors_writer::append(const_bytes data) {
  FERRY_ASSERT(data.size() <= missing_);
  missing_ -= data.size();
  while (!data.empty()) {
    const auto part = data.first(std::min(data.size(), buffer_bytes - buffer_.size()));
    buffer_.insert(buffer_.end(), part.begin(), part.end());
    data = data.subspan(part.size());
    if (buffer_.size() == buffer_bytes)
      flush();
  }
}

void safetensors_writer::finish() {
  FERRY_ASSERT(missing_ == 0);
  flush();
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    const auto code = errno;
    ::unlink(unfinished().c_str());
    throw write_error(unfinished(), "cannot complete", code);
  }
  if (::rename(unfinished().c_str(), path_.c_str()) != 0) {
    const auto code = errno;
    ::unlink(unfinished().c_str());
    throw write_error(path_, "cannot name", code);
  }
}

void safetensors_writer::flush() {
  auto rest = const_bytes(buffer_);
  while (!rest.empty()) {
    const auto written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      throw write_error(unfinished(), "cannot write", errno);
    rest = rest.subspan(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

std::filesystem::path safetensors_writer::unfinished() const {
  auto path = path_;
  path += ".part";
  return path;
}

} // namespace ferry
