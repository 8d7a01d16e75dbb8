// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/safetensors.hpp"

#include "safetensors_header.hpp"
#include "strict_json.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

namespace ferry {

namespace {

constexpr std::size_t length_bytes = 8;

// The limit of the format's own reader.
constexpr std::uint64_t most_header_bytes = 100'000'000;

/// Follows what is wrong with a file that is shorter than its header, itself sound, says.
constexpr const char* cut_off = "; the file is cut off, fetch it again";

tl::unexpected<failure> refuse(std::string_view label, const std::string& problem) {
  return tl::unexpected(failure{.code = errc::invalid_checkpoint,
                                .detail = "'" + std::string(label) + "': " + problem});
}

std::uint64_t little_endian(const_bytes bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i - 1]);
  return value;
}

std::string text(const std::vector<std::int64_t>& shape) {
  std::string list = "[";
  for (const auto dimension : shape)
    list += (list.size() > 1 ? ", " : "") + std::to_string(dimension);
  return list + "]";
}

/// Returns the bytes that a tensor of this shape takes, or nothing if its element count or its
/// strides do not fit 63 bits, even where another dimension is 0.
std::optional<std::uint64_t> size_of(const header_entry& entry) {
  auto bytes = static_cast<std::int64_t>(element_size(entry.type));
  bool empty = false;
  for (const auto dimension : entry.shape) {
    if (dimension == 0)
      empty = true;
    else if (__builtin_mul_overflow(bytes, dimension, &bytes))
      return std::nullopt;
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

std::string subject(const header_entry& entry) {
  return "tensor " + shown(entry.name) + " has data_offsets [" + std::to_string(entry.begin) +
         ", " + std::to_string(entry.end) + ")";
}

std::optional<std::string> check_entry(const header_entry& entry, std::uint64_t data_bytes) {
  const auto size = size_of(entry);
  if (!size)
    return "tensor " + shown(entry.name) + " has shape " + text(entry.shape) +
           "; expected less than 2^63 bytes";
  if (entry.begin > entry.end)
    return subject(entry) + "; expected the first to be the lesser";
  if (entry.end > data_bytes)
    return subject(entry) + "; expected at most " + std::to_string(data_bytes) +
           ", the bytes of data in the file" + (entry.end - entry.begin == *size ? cut_off : "");
  if (entry.end - entry.begin != *size)
    return subject(entry) + "; expected " + std::to_string(*size) + " bytes for " +
           std::string(to_string(entry.type)) + " " + text(entry.shape);
  return std::nullopt;
}

/// @pre every entry has passed `check_entry`
std::optional<std::string> check_coverage(std::vector<header_entry>& entries,
                                          std::uint64_t data_bytes) {
  std::ranges::sort(entries, {},
                    [](const auto& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t covered = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& entry = entries[i];
    if (entry.begin < covered)
      return subject(entry) + ", which overlap those of " + shown(entries[i - 1].name);
    if (entry.begin > covered)
      return subject(entry) + "; expected " + std::to_string(covered) +
             " as the first, so that there is no hole before it";
    covered = entry.end;
  }
  if (covered != data_bytes)
    return "the tensors take " + std::to_string(covered) + " bytes; expected " +
           std::to_string(data_bytes) + ", all data in the file";
  return std::nullopt;
}

} // namespace

bool stored_tensor::aligned() const noexcept {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % element_size(type) == 0;
}

result<safetensors_contents> read_safetensors(const_bytes file, std::string_view label) {
  if (file.size() < length_bytes)
    return refuse(label, "the file has " + std::to_string(file.size()) +
                             " bytes; expected at least 8, which hold the length of the header" +
                             cut_off);
  const auto header_bytes = little_endian(file.first(length_bytes));
  const auto rest = file.subspan(length_bytes);
  if (header_bytes > rest.size() || header_bytes > most_header_bytes)
    return refuse(label,
                  "the header has " + std::to_string(header_bytes) + " bytes; expected at most " +
                      std::to_string(std::min<std::uint64_t>(rest.size(), most_header_bytes)) +
                      (header_bytes > most_header_bytes ? "" : cut_off));
  const auto* const characters = reinterpret_cast<const char*>(rest.data());
  const auto data = rest.subspan(header_bytes);

  safetensors_header header;
  if (const auto problem =
          parse_safetensors_header(std::string_view(characters, header_bytes), header))
    return refuse(label, *problem);
  for (const auto& entry : header.entries) {
    if (const auto problem = check_entry(entry, data.size()))
      return refuse(label, *problem);
  }
  if (const auto problem = check_coverage(header.entries, data.size()))
    return refuse(label, *problem);

  safetensors_contents contents;
  contents.metadata = std::move(header.metadata);
  contents.tensors.reserve(header.entries.size());
  for (auto& entry : header.entries)
    contents.tensors.push_back({.name = std::move(entry.name),
                                .type = entry.type,
                                .shape = std::move(entry.shape),
                                .bytes = data.subspan(entry.begin, entry.end - entry.begin)});
  std::ranges::sort(contents.tensors, {}, &stored_tensor::name);
  return contents;
}

result<std::shared_ptr<const safetensors_file>>
safetensors_file::open(const std::filesystem::path& path) {
  // Opening anything else, a pipe for example, may block.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return refuse(path.string(), error ? error.message() : "expected a regular file");

  std::shared_ptr<safetensors_file> file;
  try {
    file.reset(new safetensors_file(path));
  } catch (const ferry_error& failed) {
    return tl::unexpected(
        failure{.code = errc::invalid_checkpoint, .detail = failed.reason().detail});
  }
  auto contents = read_safetensors(file->file_.bytes(), path.string());
  if (!contents)
    return tl::unexpected(std::move(contents.error()));
  file->contents_ = std::move(*contents);
  return file;
}

safetensors_file::safetensors_file(const std::filesystem::path& path)
    : file_(path, [this](std::uint64_t offset) { return contents_at(offset); }) {}

std::string safetensors_file::contents_at(std::uint64_t offset) const {
  const auto* const at = file_.bytes().data() + offset;
  for (const auto& each : contents_.tensors)
    if (at >= each.bytes.data() && at < each.bytes.data() + each.bytes.size())
      return "tensor " + shown(each.name);
  return "the header";
}

const std::vector<stored_tensor>& safetensors_file::tensors() const noexcept {
  return contents_.tensors;
}

const std::map<std::string, std::string, std::less<>>& safetensors_file::metadata() const noexcept {
  return contents_.metadata;
}

const stored_tensor* safetensors_file::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(contents_.tensors, name, {}, &stored_tensor::name);
  return found != contents_.tensors.end() && found->name == name ? &*found : nullptr;
}

} // namespace ferry
