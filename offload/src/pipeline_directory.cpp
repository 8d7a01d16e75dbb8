// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/pipeline_directory.hpp"

#include "json_file.hpp"
#include "strict_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace ferry {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view index_name = "model_index.json";
constexpr std::string_view ratio_key = "boundary_ratio";

tl::unexpected<failure> refuse(const fs::path& subject, const std::string& problem) {
  return tl::unexpected(
      failure{.code = errc::invalid_checkpoint, .detail = "'" + subject.string() + "' " + problem});
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                 "0123456789_-") == std::string_view::npos;
}

} // namespace

const declared_component* pipeline_directory::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(components, name, &declared_component::name);
  return found != components.end() ? &*found : nullptr;
}

result<pipeline_directory> read_pipeline_directory(const fs::path& root) {
  std::error_code error;
  const auto path = root / index_name;
  if (!fs::exists(path, error)) {
    if (error)
      return refuse(path, "cannot be read: " + error.message());
    const auto* const what = !fs::exists(root, error)         ? "does not exist"
                             : !fs::is_directory(root, error) ? "is no directory"
                                                              : "is no pipeline";
    return refuse(root,
                  std::string(what) + "; expected a directory with a " + std::string(index_name));
  }
  const auto index = read_json_file(path);
  if (!index)
    return tl::unexpected(index.error());

  pipeline_directory pipeline;
  pipeline.root = root;
  const auto class_name = index->find("_class_name");
  if (class_name == index->end() || !class_name->is_string())
    return refuse(path, "has no string _class_name; expected the class of the pipeline");
  pipeline.class_name = class_name->get<std::string>();

  // Items come sorted by name.
  for (const auto& [name, entry] : index->items()) {
    if (name == ratio_key && !entry.is_null()) {
      if (!entry.is_number() || entry.get<double>() < 0 || entry.get<double>() > 1)
        return refuse(path, "has " + shown(entry) +
                                " as boundary_ratio; expected a number from 0 "
                                "to 1");
      pipeline.boundary_ratio = entry.get<double>();
    }
    if (!entry.is_array() || name.starts_with('_') || entry == json::array({nullptr, nullptr}))
      continue;
    if (entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string())
      return refuse(path, "has " + shown(entry) + " under " + shown(name) +
                              "; expected the names of a library and a class, or two nulls");
    if (!is_plain_name(name))
      return refuse(path, "has a component " + shown(name) +
                              "; expected a name of letters, digits, _ and -");
    const auto directory = root / name;
    if (!fs::is_directory(directory, error))
      return refuse(directory, "is no directory; expected the component that '" + path.string() +
                                   "' declares");
    pipeline.components.push_back({.name = name,
                                   .library = entry[0].get<std::string>(),
                                   .class_name = entry[1].get<std::string>(),
                                   .directory = directory});
  }
  return pipeline;
}

} // namespace ferry
