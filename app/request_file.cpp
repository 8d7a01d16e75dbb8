// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "request_file.hpp"

#include "request_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace ferry {

namespace {

using nlohmann::json;
using ids = std::vector<std::int64_t>;

constexpr std::size_t longest_line = std::size_t{1} << 20U;
constexpr std::size_t most_lines = 100'000;

bool read_integer(const json& value, std::int64_t& target) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer() || (value.is_number_unsigned() && value > most))
    return false;
  target = value.get<std::int64_t>();
  return true;
}

bool read_seed(const json& value, request& asked) {
  if (value.is_number_unsigned())
    asked.seed = value.get<std::uint64_t>();
  return value.is_number_unsigned();
}

bool read_steps(const json& value, request& asked) {
  return read_integer(value, asked.steps);
}

bool read_guidance(const json& value, request& asked) {
  if (value.is_number())
    asked.guidance = value.get<double>();
  return value.is_number();
}

bool read_frames(const json& value, request& asked) {
  return read_integer(value, asked.frames);
}

bool read_size_member(const json& value, request& asked) {
  if (!value.is_string())
    return false;
  const auto size = read_size("size", value.get_ref<const std::string&>());
  if (size) {
    asked.width = size->width;
    asked.height = size->height;
  }
  return size.has_value();
}

ids& positive_ids(request& asked) {
  return asked.positive.ids;
}

ids& second_ids(request& asked) {
  return asked.second.ids;
}

ids& negative_ids(request& asked) {
  return asked.negative.ids;
}

/// One member of a request: a scalar that `read` takes, or a list of token ids.
struct member {
  std::string_view name;
  std::string_view expected;
  bool (*read)(const json& value, request& asked);
  ids& (*list)(request& asked);
};

constexpr std::array members = {
    member{"prompt_ids", "a list of token ids, at least one", nullptr, positive_ids},
    member{"second_prompt_ids", "a list of token ids, at least one", nullptr, second_ids},
    member{"negative_prompt_ids", "a list of token ids, at least one", nullptr, negative_ids},
    member{"seed", "an integer from 0 to 18446744073709551615", read_seed, nullptr},
    member{"steps", "an integer from 1 to 1000", read_steps, nullptr},
    member{"guidance", "a finite number", read_guidance, nullptr},
    member{"size", "a text of width and height in pixels, such as \"832x480\"", read_size_member,
           nullptr},
    member{"frames", "an integer", read_frames, nullptr},
};
static_assert(max_steps == 1000);

std::string cut(std::string text) {
  constexpr std::size_t longest_shown = 100;
  if (text.size() > longest_shown)
    text.replace(longest_shown, std::string::npos, "...");
  return text;
}

/// Fills a request with what the parser finds in a line, up to the first thing it has to refuse.
class line_reader final : public nlohmann::json_sax<json> {
public:
  explicit line_reader(request defaults) : asked_(std::move(defaults)) {}

  [[nodiscard]] const request& asked() const noexcept { return asked_; }

  /// Says what is wrong with the line; empty where nothing is.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t& digits) override {
    return scalar(value, digits);
  }
  bool string(string_t& value) override { return scalar(value); }
  bool binary(binary_t& /*value*/) override { return refuse("holds binary data"); }

  bool start_object(std::size_t /*size*/) override {
    if (open_)
      return unexpected("an object");
    open_ = true;
    return true;
  }

  bool key(string_t& name) override {
    const auto* found = std::ranges::find(members, name, &member::name);
    if (found == members.end())
      return refuse("contains " + cut(json(name).dump(-1, ' ', true)) + "; expected only " +
                    known_members());
    if (!seen_.insert(found->name).second)
      return refuse("contains " + name + " twice; expected every member once");
    member_ = found;
    return true;
  }

  bool end_object() override { return true; }

  bool start_array(std::size_t /*size*/) override {
    if (!open_)
      return refuse("is a list; expected a JSON object");
    if (member_->list == nullptr || in_list_)
      return unexpected("a list");
    in_list_ = true;
    member_->list(asked_).clear();
    return true;
  }

  bool end_array() override {
    in_list_ = false;
    return !member_->list(asked_).empty() || unexpected("[]");
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const json::exception& error) override {
    constexpr int number_overflow = 406;
    if (error.id == number_overflow && member_ != nullptr)
      return unexpected(last_token);
    return refuse("is not JSON; look at byte " + std::to_string(position));
  }

private:
  static std::string known_members() {
    std::string names;
    for (const auto& each : members)
      names.append(names.empty() ? "" : ", ").append(each.name);
    return names;
  }

  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  bool unexpected(const std::string& what) {
    if (!in_list_)
      return refuse(std::string(member_->name) + " is " + cut(what) + "; expected " +
                    std::string(member_->expected));
    return refuse(std::string(member_->name) + "[" + std::to_string(member_->list(asked_).size()) +
                  "] is " + cut(what) + "; expected an integer");
  }

  bool scalar(const json& value) { return scalar(value, value.dump(-1, ' ', true)); }

  bool scalar(const json& value, const std::string& shown) {
    if (!open_)
      return refuse("is " + cut(shown) + "; expected a JSON object");
    if (!in_list_)
      return (member_->read != nullptr && member_->read(value, asked_)) || unexpected(shown);
    std::int64_t id = 0;
    if (!read_integer(value, id))
      return unexpected(shown);
    member_->list(asked_).push_back(id);
    return true;
  }

  request asked_;
  std::string problem_;
  std::set<std::string_view> seen_;
  const member* member_ = nullptr; ///< Whose value comes next.
  bool open_ = false;
  bool in_list_ = false;
};

tl::unexpected<failure> refuse(errc code, std::string detail) {
  return tl::unexpected(failure{.code = code, .detail = std::move(detail)});
}

result<request> read_line(const std::string& line, const diffusion_model& model) {
  line_reader reader(model.defaults());
  if (line.size() > longest_line)
    return refuse(errc::invalid_argument, "has " + std::to_string(line.size()) +
                                              " bytes; expected at most " +
                                              std::to_string(longest_line));
  if (!json::sax_parse(line, &reader))
    return refuse(errc::invalid_argument, reader.problem());
  if (auto valid = model.check(reader.asked()); !valid)
    return tl::unexpected(valid.error());
  return reader.asked();
}

} // namespace

result<std::vector<asked_request>> read_requests(const std::filesystem::path& path,
                                                 const diffusion_model& model) {
  std::ifstream file(path);
  std::error_code ignored;
  if (!file || std::filesystem::is_directory(path, ignored))
    return refuse(errc::not_found, "--requests names '" + path.string() +
                                       "', which cannot be read; expected a file with one JSON "
                                       "object a line");
  std::vector<asked_request> all;
  for (std::string line; std::getline(file, line);) {
    auto origin = path.string() + ":" + std::to_string(all.size() + 1);
    if (all.size() == most_lines)
      return refuse(errc::invalid_argument,
                    origin + ": expected at most " + std::to_string(most_lines) + " requests");
    auto asked = read_line(line, model);
    if (!asked)
      return refuse(asked.error().code, origin + ": " + asked.error().detail);
    all.push_back({.what = std::move(*asked), .origin = std::move(origin)});
  }
  if (file.bad())
    return refuse(errc::io_failure, "'" + path.string() + "' could not be read to its end");
  if (all.empty())
    return refuse(errc::invalid_argument,
                  "'" + path.string() + "' is empty; expected one JSON object a line");
  return all;
}

} // namespace ferry
