// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "strict_json.hpp"

#include <set>
#include <stdexcept>
#include <vector>

namespace ferry {
namespace {

using nlohmann::json;

struct refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr std::size_t longest_shown = 100;

} // namespace

result<json> parse_strict(std::string_view text, std::string_view subject, int max_depth) {
  std::vector<std::set<std::string>> open_objects;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
        open_objects.emplace_back();
        [[fallthrough]];
      case json::parse_event_t::array_start:
        if (depth >= max_depth) {
          throw refused{"is nested deeper than " + std::to_string(max_depth) + " levels"};
        }
        break;
      case json::parse_event_t::key:
        if (!open_objects.back().insert(parsed.get<std::string>()).second) {
          throw refused{"contains the key " + shown(parsed) + " twice; expected every key once"};
        }
        break;
      case json::parse_event_t::object_end:
        open_objects.pop_back();
        break;
      case json::parse_event_t::array_end:
      case json::parse_event_t::value:
        break;
    }
    return true;
  };
  const auto fail = [subject](std::string why) -> result<json> {
    return tl::unexpected(
        failure{.code = errc::invalid_config, .detail = std::string{subject} + " " + why});
  };
  try {
    return json::parse(text, watch);
  } catch (const refused& error) {
    return fail(error.what());
  } catch (const json::parse_error& error) {
    return fail("is not JSON; look at byte " + std::to_string(error.byte));
  } catch (const json::exception&) {
    return fail("contains a number that is too large");
  }
}

std::string shown(const json& value) {
  auto text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > longest_shown) {
    text.resize(longest_shown);
    text += "...";
  }
  return text;
}

std::string unexpected_value(std::string_view subject, const json& value,
                             std::string_view expected) {
  return std::string{subject} + " is " + shown(value) + "; expected " + std::string{expected};
}

} // namespace ferry
