// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "event_scanner.hpp"

#include "ferry/platform/error.hpp"
#include "strict_json.hpp"

#include <istream>
#include <string_view>
#include <utility>

namespace ferry {
namespace {

constexpr int the_end = -1;

[[noreturn]] void refuse(std::string detail) {
  throw ferry_error{{.code = errc::invalid_argument, .detail = std::move(detail)}};
}

/// As it may be shown: the byte may be anything.
std::string shown_byte(int byte) {
  return shown(nlohmann::json(std::string(1, static_cast<char>(byte))));
}

} // namespace

int event_scanner::take() {
  if (at_ == filled_) {
    in_->read(chunk_.data(), static_cast<std::streamsize>(chunk_.size()));
    filled_ = static_cast<std::size_t>(in_->gcount());
    at_ = 0;
    if (filled_ == 0)
      return the_end;
  }
  const auto byte = static_cast<unsigned char>(chunk_[at_++]);
  if (byte == '\n')
    ++line_;
  return byte;
}

int event_scanner::take_after_blanks() {
  for (;;) {
    const auto byte = take();
    if (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t')
      continue;
    began_ = line_;
    return byte;
  }
}

// Either the array itself, or an object that begins with it.
void event_scanner::open(int byte) {
  constexpr std::string_view key = R"("traceEvents":)";
  if (byte == '{') {
    in_object_ = true;
    byte = take_after_blanks();
    for (const char expected : key) {
      if (byte == the_end)
        return;
      if (byte != expected)
        refuse(
            "is no trace of Ferry, perhaps one of another program: it is an object that does not "
            "begin with " +
            std::string(key));
      byte = take_after_blanks();
    }
  }
  if (byte == 0x1f)
    refuse("is compressed; unpack it");
  if (byte != '[' && byte != the_end)
    refuse("is no trace of Ferry: it begins with " + shown_byte(byte) + "; expected '['");
}

std::optional<std::string> event_scanner::next() {
  auto byte = take_after_blanks();
  if (place_ == place::before && byte != the_end) {
    open(byte);
    place_ = place::first;
    byte = take_after_blanks();
  }
  if (place_ == place::between && byte == ',')
    byte = take_after_blanks();
  else if (place_ == place::between && byte == '{')
    refuse("lacks a comma between two events");
  if (byte == the_end)
    return std::nullopt;
  if (place_ == place::after)
    refuse("goes on behind its end");
  if (byte == ']') {
    place_ = place::after;
    if (in_object_ && (byte = take_after_blanks()) != '}' && byte != the_end)
      refuse("has " + shown_byte(byte) + " behind its events");
    return next();
  }
  if (byte != '{')
    refuse("has " + shown_byte(byte) + " where an event should begin");
  place_ = place::between;
  return object();
}

std::optional<std::string> event_scanner::object() {
  std::string text = "{";
  int depth = 1;
  bool quoted = false;
  while (depth > 0) {
    const auto byte = take();
    if (byte == the_end)
      return std::nullopt;
    text += static_cast<char>(byte);
    if (quoted && byte == '\n')
      refuse("has a string without an end");
    if (text.size() > longest_event)
      refuse("has an event of more than " + std::to_string(longest_event) + " bytes");
    if (quoted && byte == '\\') {
      const auto escaped = take();
      if (escaped == the_end)
        return std::nullopt;
      text += static_cast<char>(escaped);
    } else if (byte == '"') {
      quoted = !quoted;
    } else if (!quoted && (byte == '{' || byte == '[')) {
      if (++depth > deepest)
        refuse("has an event that is nested deeper than " + std::to_string(deepest) + " levels");
    } else if (!quoted && (byte == '}' || byte == ']')) {
      --depth;
    }
  }
  return text;
}

} // namespace ferry
