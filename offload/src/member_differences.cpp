// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/member_differences.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <set>

namespace ferry {
namespace {

using json = nlohmann::json;

constexpr std::size_t most_named = 5;
constexpr std::size_t longest_value = 60;
/// A longer list is told apart by its elements.
constexpr std::size_t longest_list = 8;

json read(std::string_view text) {
  auto value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json(std::string(text)) : value;
}

bool is_long(const json& value) {
  return value.is_array() && value.size() > longest_list;
}

/// What differs between two values, in words, and how often.
class differences {
public:
  /// @param own null: this side has nothing there; so has `of_rank_0`
  void look(const std::string& path, const json* own, const json* of_rank_0) {
    if (own != nullptr && of_rank_0 != nullptr && *own == *of_rank_0)
      return;
    if (own == nullptr || of_rank_0 == nullptr)
      add(path, own, of_rank_0);
    else if (own->is_object() && of_rank_0->is_object())
      look_at_members(path, *own, *of_rank_0);
    else if (is_long(*own) && is_long(*of_rank_0))
      look_at_elements(path, *own, *of_rank_0);
    else
      add(path, own, of_rank_0);
  }

  [[nodiscard]] std::string in_words() const {
    return count_ <= most_named ? named_
                                : named_ + " and " + std::to_string(count_ - most_named) + " more";
  }

private:
  void look_at_members(const std::string& path, const json& own, const json& of_rank_0) {
    std::set<std::string> names;
    for (const auto* side : {&own, &of_rank_0})
      for (const auto& [name, value] : side->items())
        names.insert(name);
    const auto at = [](const json& side, const std::string& name) {
      return side.contains(name) ? &side[name] : nullptr;
    };
    for (const auto& name : names)
      look(path.empty() ? name : path + "." + name, at(own, name), at(of_rank_0, name));
  }

  void look_at_elements(const std::string& path, const json& own, const json& of_rank_0) {
    const auto at = [](const json& side, std::size_t i) {
      return i < side.size() ? &side[i] : nullptr;
    };
    for (std::size_t i = 0; i < std::max(own.size(), of_rank_0.size()); ++i)
      look(path + "[" + std::to_string(i) + "]", at(own, i), at(of_rank_0, i));
  }

  void add(const std::string& path, const json* own, const json* of_rank_0) {
    if (++count_ <= most_named)
      named_ += (named_.empty() ? "" : ", ") + (path.empty() ? path : path + " ") + text(own) +
                " (rank 0: " + text(of_rank_0) + ")";
  }

  static std::string text(const json* value) {
    if (value == nullptr)
      return "nothing";
    auto dumped = value->dump();
    return dumped.size() <= longest_value ? dumped : dumped.substr(0, longest_value) + "...";
  }

  std::string named_;
  std::size_t count_ = 0;
};

} // namespace

std::string member_differences(std::string_view own, std::string_view of_rank_0) {
  const auto mine = read(own);
  const auto other = read(of_rank_0);
  differences found;
  found.look("", &mine, &other);
  return found.in_words();
}

} // namespace ferry
