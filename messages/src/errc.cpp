// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/messages/errc.hpp"

#include <cstdint>
#include <limits>
#include <optional>

namespace ferry {
namespace {

constexpr auto absent = std::numeric_limits<std::int32_t>::min();

std::optional<int> read(std::int32_t value) {
  return value == absent ? std::nullopt : std::optional<int>{value};
}

#if FERRY_CAF_GENERATION == 17
bool is_ours(const caf::error& reason) {
  return reason.category() == caf::detail::error_factory<errc>::category;
}

bool is(const caf::error& reason, caf::sec code) {
  return reason == code;
}

std::string text_of(const caf::error& reason) {
  if (reason.category() == caf::atom("system"))
    return to_string(static_cast<caf::sec>(reason.code()));
  if (reason.category() == caf::atom("exit"))
    return to_string(static_cast<caf::exit_reason>(reason.code()));
  return to_string(reason);
}
#else
bool is_ours(const caf::error& reason) {
  return reason.category() == caf::type_id_v<errc>;
}

bool is(const caf::error& reason, caf::sec code) {
  return reason == code;
}

std::string text_of(const caf::error& reason) {
  return to_string(reason);
}
#endif

} // namespace

caf::error to_error(const failure& reason) {
  return caf::make_error(reason.code, reason.detail, reason.block,
                         std::int32_t{reason.rank.value_or(absent)},
                         std::int32_t{reason.vendor_code.value_or(absent)});
}

failure to_failure(const caf::error& reason) {
  if (!reason)
    return {.code = errc::internal, .detail = "ended without an error"};
  if (is_ours(reason)) {
    failure f{.code = static_cast<errc>(reason.code()), .detail = {}};
    const auto& context = reason.context();
    if (context.match_elements<std::string, std::string, std::int32_t, std::int32_t>()) {
      f.detail = context.get_as<std::string>(0);
      f.block = context.get_as<std::string>(1);
      f.rank = read(context.get_as<std::int32_t>(2));
      f.vendor_code = read(context.get_as<std::int32_t>(3));
    }
    return f;
  }
  if (is(reason, caf::sec::request_timeout))
    return {.code = errc::deadline_exceeded, .detail = "no answer within the deadline"};
  if (is(reason, caf::sec::request_receiver_down))
    return {.code = errc::transfer_aborted, .detail = "the actor asked has stopped"};
  return {.code = errc::internal, .detail = text_of(reason)};
}

void add_error_category([[maybe_unused]] caf::actor_system_config& config) {
#if FERRY_CAF_GENERATION == 17
  constexpr auto category = caf::detail::error_factory<errc>::category;
  config.add_error_category(
      category, [](std::uint8_t code, caf::atom_value name, const caf::message& context) {
        return describe(to_failure(caf::error{code, name, context}));
      });
#endif
}

} // namespace ferry
