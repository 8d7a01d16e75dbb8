// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "failure_text.hpp"

#include <limits>
#include <sstream>

namespace ferry {
namespace {

constexpr auto absent = std::numeric_limits<int>::min();

std::optional<int> if_present(int number) {
  return number == absent ? std::nullopt : std::optional(number);
}

} // namespace

std::string to_text(const failure& cause) {
  auto text = std::ostringstream();
  text << static_cast<int>(cause.code) << ' ' << cause.rank.value_or(absent) << ' '
       << cause.vendor_code.value_or(absent) << ' ' << cause.block.size() << ' ' << cause.block
       << cause.detail;
  return text.str();
}

failure read_failure(std::string_view text) {
  auto source = std::istringstream(std::string(text));
  int code = 0;
  int rank = absent;
  int vendor_code = absent;
  std::size_t block_size = 0;
  source >> code >> rank >> vendor_code >> block_size;
  source.get();
  const auto known = code > 0 && code <= static_cast<int>(errc::internal);
  const auto place = source ? static_cast<std::size_t>(source.tellg()) : text.size() + 1;
  if (!known || place > text.size() || block_size > text.size() - place)
    return {.code = errc::internal, .detail = "unreadable failure '" + std::string(text) + "'"};
  return {.code = static_cast<errc>(code),
          .detail = std::string(text.substr(place + block_size)),
          .block = std::string(text.substr(place, block_size)),
          .rank = if_present(rank),
          .vendor_code = if_present(vendor_code)};
}

} // namespace ferry
