// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/checkpoint_writer.hpp"

#include <ferry/platform/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

namespace ferry {

namespace {

constexpr std::size_t chunk_bytes = 4 << 20;

using shard = std::vector<tensor_declaration>;

std::vector<shard> split(const std::vector<tensor_declaration>& tensors, std::uint64_t most) {
  std::vector<shard> shards(1);
  std::uint64_t held = 0;
  for (const auto& tensor : tensors) {
    if (!shards.back().empty() && held + tensor.bytes() > most) {
      shards.emplace_back();
      held = 0;
    }
    shards.back().push_back(tensor);
    held += tensor.bytes();
  }
  return shards;
}

std::string shard_name(std::string_view stem, std::size_t index, std::size_t count) {
  char numbers[32];
  std::snprintf(numbers, sizeof(numbers), "-%05zu-of-%05zu", index + 1, count);
  return std::string(stem) + numbers + ".safetensors";
}

void write_shard(const std::filesystem::path& path, const shard& tensors,
                 const tensor_source& source) {
  safetensors_writer writer(path, tensors, {{"format", "pt"}});
  std::vector<std::byte> chunk(chunk_bytes);
  for (const auto& tensor : writer.tensors()) {
    const auto bytes = tensor.bytes();
    for (std::uint64_t offset = 0; offset < bytes; offset += chunk_bytes) {
      const auto part = std::min<std::uint64_t>(chunk_bytes, bytes - offset);
      const auto filled = mutable_bytes(chunk).first(part);
      source(tensor, offset, filled);
      writer.append(filled);
    }
  }
  writer.finish();
}

void write_index(const std::filesystem::path& path, const nlohmann::json& index) {
  auto file = std::ofstream(path, std::ios::binary);
  file << index.dump(2) << '\n';
  file.close();
  if (!file)
    throw ferry_error({.code = errc::io_failure,
                       .detail = "cannot write '" + path.string() +
                                 "': " + std::generic_category().message(errno)});
}

} // namespace

void write_component(const std::filesystem::path& directory, std::string_view stem,
                     const std::vector<tensor_declaration>& tensors,
                     std::uint64_t most_bytes_per_file, const tensor_source& source) {
  const auto whole = std::string(stem) + ".safetensors";
  const auto shards = split(tensors, most_bytes_per_file);
  if (shards.size() == 1)
    return write_shard(directory / whole, tensors, source);

  std::uint64_t total = 0;
  auto weight_map = nlohmann::json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto name = shard_name(stem, i, shards.size());
    write_shard(directory / name, shards[i], source);
    for (const auto& tensor : shards[i]) {
      weight_map[tensor.name] = name;
      total += tensor.bytes();
    }
  }
  write_index(directory / (whole + ".index.json"),
              {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}});
}

} // namespace ferry
