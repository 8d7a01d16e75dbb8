// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "request_text.hpp"

#include <charconv>
#include <string>

namespace ferry {

namespace {

bool read(std::string_view digits, std::int64_t& value) {
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  return error == std::errc{} && end == digits.end();
}

tl::unexpected<failure> refuse(std::string_view name, std::string_view text,
                               std::string_view expected) {
  std::string detail(name);
  detail.append(" is '").append(text).append("'; expected ").append(expected);
  return tl::unexpected(failure{.code = errc::invalid_argument, .detail = std::move(detail)});
}

} // namespace

result<picture_size> read_size(std::string_view name, std::string_view text) {
  picture_size size;
  const auto cross = text.find('x');
  if (cross == std::string_view::npos || !read(text.substr(0, cross), size.width) ||
      !read(text.substr(cross + 1), size.height))
    return refuse(name, text, "width and height in pixels, such as 832x480");
  return size;
}

result<std::vector<std::int64_t>> read_ids(std::string_view name, std::string_view text) {
  std::vector<std::int64_t> ids;
  for (auto rest = text;;) {
    const auto comma = rest.find(',');
    std::int64_t id = 0;
    if (!read(rest.substr(0, comma), id))
      return refuse(name, text, "token ids with commas between them, such as 5,17,9");
    ids.push_back(id);
    if (comma == std::string_view::npos)
      return ids;
    rest.remove_prefix(comma + 1);
  }
}

} // namespace ferry
