// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/checkpoint.hpp"

#include "json_file.hpp"
#include "strict_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <utility>

namespace ferry {

namespace {

namespace fs = std::filesystem;

constexpr auto stems = std::to_array<std::string_view>({"diffusion_pytorch_model", "model"});
constexpr std::string_view index_suffix = ".index.json";

tl::unexpected<failure> refuse(const fs::path& subject, const std::string& problem) {
  return tl::unexpected(
      failure{.code = errc::invalid_checkpoint, .detail = "'" + subject.string() + "' " + problem});
}

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

/// Returns whether `file` of `directory` is what it seems: a file of the directory, or a link to
/// one of it or of the cache that the directory is a snapshot in.
result<void> check_place(const fs::path& file, const fs::path& directory) {
  std::error_code error;
  const auto target = fs::canonical(file, error);
  if (error)
    return refuse(file, "cannot be opened: " + error.message());
  const auto home = fs::canonical(directory, error);
  if (target.parent_path() == home)
    return {};
  const auto blobs = target.parent_path();
  const auto snapshots = blobs.parent_path() / "snapshots";
  const auto inside =
      std::mismatch(snapshots.begin(), snapshots.end(), home.begin(), home.end()).first ==
      snapshots.end();
  if (blobs.filename() == "blobs" && inside)
    return {};
  return refuse(file, "is a link to '" + target.string() +
                          "', which is outside; expected a file in the component's directory");
}

/// Reads which file is to hold which tensor.
result<std::map<std::string, std::string>> read_weight_map(const fs::path& index) {
  auto document = read_json_file(index);
  if (!document)
    return tl::unexpected(std::move(document.error()));
  const auto found = document->find("weight_map");
  if (found == document->end() || !found->is_object())
    return refuse(index, "has no object weight_map");

  std::map<std::string, std::string> weight_map;
  for (const auto& [tensor, file] : found->items()) {
    const auto subject = "names " + (file.is_string() ? shown(file.get<std::string>())
                                                      : std::string(file.type_name()));
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>()))
      return refuse(index, subject + " as the file of tensor " + shown(tensor) +
                               "; expected the name of a file in the same directory");
    weight_map.emplace(tensor, file.get<std::string>());
  }
  return weight_map;
}

} // namespace

result<std::shared_ptr<const component_checkpoint>>
component_checkpoint::open(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error))
    return refuse(directory, "is no directory; expected one with the weights of a component");

  std::vector<fs::path> found;
  std::string known;
  for (const auto stem : stems) {
    const auto file = std::string(stem) + ".safetensors";
    for (const auto& name : {file, file + std::string(index_suffix)}) {
      if (fs::exists(fs::symlink_status(directory / name, error)))
        found.push_back(directory / name);
      known += (known.empty() ? "" : ", ") + name;
    }
  }
  if (found.empty())
    return refuse(directory, "holds no weights; expected one of " + known);
  if (found.size() > 1)
    return refuse(directory, "holds both '" + found[0].filename().string() + "' and '" +
                                 found[1].filename().string() + "'; remove the stale one");

  auto checkpoint = std::shared_ptr<component_checkpoint>(new component_checkpoint(directory));
  const auto opened = found[0].extension() == ".json" ? checkpoint->open_sharded(found[0])
                                                      : checkpoint->open_single(found[0]);
  if (!opened)
    return tl::unexpected(opened.error());

  auto& tensors = checkpoint->tensors_;
  std::ranges::sort(tensors, {}, &stored_tensor::name);
  const auto twice = std::ranges::adjacent_find(tensors, {}, &stored_tensor::name);
  if (twice != tensors.end())
    return refuse(found[0], "names two files that hold tensor " + shown((*twice)->name));
  return checkpoint;
}

component_checkpoint::component_checkpoint(fs::path directory) : directory_(std::move(directory)) {}

const std::vector<std::shared_ptr<const safetensors_file>>&
component_checkpoint::files() const noexcept {
  return files_;
}

const std::vector<const stored_tensor*>& component_checkpoint::tensors() const noexcept {
  return tensors_;
}

const stored_tensor* component_checkpoint::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &stored_tensor::name);
  return found != tensors_.end() && (*found)->name == name ? *found : nullptr;
}

std::uint64_t component_checkpoint::total_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto* tensor : tensors_)
    sum += tensor->bytes.size();
  return sum;
}

result<void> component_checkpoint::open_single(const fs::path& file) {
  if (const auto placed = check_place(file, directory_); !placed)
    return placed;
  auto opened = safetensors_file::open(file);
  if (!opened)
    return tl::unexpected(std::move(opened.error()));
  add(std::move(*opened));
  return {};
}

result<void> component_checkpoint::open_sharded(const fs::path& index) {
  if (const auto placed = check_place(index, directory_); !placed)
    return placed;
  const auto weight_map = read_weight_map(index);
  if (!weight_map)
    return tl::unexpected(weight_map.error());

  std::map<std::string, const safetensors_file*> shards;
  for (const auto& [tensor, name] : *weight_map) {
    auto& shard = shards[name];
    if (!shard) {
      if (const auto opened = open_single(directory_ / name); !opened)
        return tl::unexpected(
            failure{.code = errc::invalid_checkpoint,
                    .detail = opened.error().detail + " (named by '" + index.string() + "')"});
      shard = files_.back().get();
    }
    if (!shard->find(tensor))
      return refuse(shard->path(), "has no tensor " + shown(tensor) + ", which '" + index.string() +
                                       "' says it holds");
  }
  return {};
}

void component_checkpoint::add(std::shared_ptr<const safetensors_file> file) {
  for (const auto& tensor : file->tensors())
    tensors_.push_back(&tensor);
  files_.push_back(std::move(file));
}

} // namespace ferry
