// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "safetensors_header.hpp"

#include "strict_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

namespace ferry {

namespace {

using json = nlohmann::json;

constexpr std::string_view metadata_key = "__metadata__";

// What libtorch can address.
constexpr std::size_t most_dimensions = 64;

/// Follows the parser through the one shape that a header may have, and stops it at the first
/// deviation: that is what bounds depth and memory.
class header_reader final : public nlohmann::json_sax<json> {
public:
  explicit header_reader(safetensors_header& header) : header_(&header) {}

  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return unexpected(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return unexpected(text); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == place::shape)
      return add_dimension(value);
    if (place_ == place::offsets)
      return add_offset(value);
    return unexpected(std::to_string(value));
  }

  bool string(string_t& value) override {
    if (place_ == place::metadata) {
      header_->metadata[key_] = value;
      return true;
    }
    if (place_ != place::tensor || key_ != "dtype")
      return unexpected(shown(value));
    const auto type = dtype_from(value);
    if (!type)
      return reject(subject() + "has dtype " + shown(value) +
                    "; expected one of BOOL, U8, I8, I16, I32, I64, F8_E4M3, F8_E5M2, F16, BF16, "
                    "F32, F64");
    entry_.type = *type;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == place::outside) {
      place_ = place::header;
      return true;
    }
    if (place_ != place::header)
      return unexpected("an object");
    place_ = key_ == metadata_key ? place::metadata : place::tensor;
    entry_ = header_entry();
    entry_.name = key_;
    offsets_ = 0;
    keys_.clear();
    return true;
  }

  bool key(string_t& name) override {
    key_ = name;
    if (place_ == place::header)
      return names_.insert(name).second || reject("the header names " + shown(name) + " twice");
    if (place_ == place::tensor && std::ranges::find(fields, name) == fields.end())
      return reject(subject() + "has the field " + shown(name) +
                    "; expected dtype, shape and data_offsets");
    return keys_.insert(name).second || reject(subject() + "has the key " + shown(name) + " twice");
  }

  bool start_array(std::size_t) override {
    if (place_ == place::tensor && key_ == "shape")
      place_ = place::shape;
    else if (place_ == place::tensor && key_ == "data_offsets")
      place_ = place::offsets;
    else
      return unexpected("an array");
    return true;
  }

  bool end_array() override {
    if (place_ == place::offsets && offsets_ != 2)
      return reject(subject() + "has one or no data offset; expected two");
    place_ = place::tensor;
    return true;
  }

  bool end_object() override {
    if (place_ == place::tensor) {
      for (const auto field : fields) {
        if (!keys_.contains(std::string(field)))
          return reject(subject() + "has no " + std::string(field));
      }
      header_->entries.push_back(std::move(entry_));
    }
    place_ = place_ == place::header ? place::outside : place::header;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return reject("the header is no valid JSON at byte " + std::to_string(position));
  }

private:
  enum class place { outside, header, metadata, tensor, shape, offsets };

  static constexpr auto fields =
      std::to_array<std::string_view>({"dtype", "shape", "data_offsets"});

  [[nodiscard]] std::string subject() const {
    switch (place_) {
      case place::outside:
      case place::header:
        return "the header ";
      case place::metadata:
        return std::string(metadata_key) + " ";
      default:
        return "tensor " + shown(entry_.name) + " ";
    }
  }

  bool unexpected(const std::string& what) {
    switch (place_) {
      case place::outside:
        return reject("the header is " + what + "; expected an object");
      case place::header:
        return reject("the header has " + what + " under " + shown(key_) + "; expected an object");
      case place::metadata:
        return reject(subject() + "has " + what + " under " + shown(key_) + "; expected a string");
      case place::tensor:
        return reject(subject() + "has " + what + " as its " + key_ + "; expected " +
                      (key_ == "dtype" ? "a string" : "an array of integers"));
      case place::shape:
        return reject(subject() + "has " + what + " in its shape; expected integers >= 0");
      case place::offsets:
        return reject(subject() + "has " + what + " in its data_offsets; expected integers >= 0");
    }
    return reject("the header is malformed");
  }

  bool add_dimension(std::uint64_t value) {
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (value > most)
      return reject(subject() + "has the dimension " + std::to_string(value) +
                    "; expected less than 2^63");
    if (entry_.shape.size() == most_dimensions)
      return reject(subject() + "has more than " + std::to_string(most_dimensions) + " dimensions");
    entry_.shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool add_offset(std::uint64_t value) {
    if (offsets_ == 2)
      return reject(subject() + "has more than two data offsets");
    (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    return true;
  }

  bool reject(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  safetensors_header* header_;
  std::string problem_;
  place place_ = place::outside;
  std::string key_;
  header_entry entry_;
  int offsets_ = 0;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> keys_;
};

} // namespace

std::optional<std::string> parse_safetensors_header(std::string_view text,
                                                    safetensors_header& header) {
  // The parser would skip blanks and a byte order mark, and take a zero byte for the end.
  if (!text.starts_with('{') || text.find('\0') != std::string_view::npos)
    return "the header is no JSON object; expected text that starts with {";
  header_reader reader(header);
  if (!json::sax_parse(text.begin(), text.end(), &reader))
    return reader.problem();
  return std::nullopt;
}

} // namespace ferry
