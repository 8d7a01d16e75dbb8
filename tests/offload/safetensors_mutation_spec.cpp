// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/safetensors.hpp>

#include "support/catch.hpp"
#include "support/safetensors_bytes.hpp"

#include <cctype>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace ferry {
namespace {

const std::string sound_header =
    R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[4,8],)"
    R"("data_offsets":[0,128]},"a.bias":{"dtype":"BF16","shape":[4],"data_offsets":[128,136]},)"
    R"("scalar":{"dtype":"I64","shape":[],"data_offsets":[136,144]},)"
    R"("none":{"dtype":"U8","shape":[0,3],"data_offsets":[144,144]}})";
constexpr std::size_t data_bytes = 144;

/// Damages a file a little, so that it gets past the first checks often enough.
class mutator {
public:
  explicit mutator(std::uint32_t seed) : random_(seed) {}

  std::string damaged() {
    auto header = sound_header;
    for (auto i = below(3) + 1; i > 0; --i)
      mutate(header);
    auto file = test::safetensors_bytes(header, data_bytes);
    if (below(16) == 0)
      file[below(8)] = static_cast<char>(below(256));
    if (below(16) == 0)
      file.resize(below(file.size() + 1));
    return file;
  }

private:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }

  void mutate(std::string& text) {
    const auto at = below(text.size());
    const auto length = 1 + below(std::min<std::size_t>(12, text.size() - at));
    switch (below(6)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        return;
      case 1:
        text[at] = R"({}[]",:0129-.eE)"[below(15)];
        return;
      case 2:
        text.erase(at, length);
        return;
      case 3:
        text.insert(below(text.size()), text.substr(at, length));
        return;
      default:
        replace_number(text, at);
    }
  }

  void replace_number(std::string& text, std::size_t from) {
    static const std::vector<std::string> numbers = {"0",
                                                     "1",
                                                     "3",
                                                     "4",
                                                     "8",
                                                     "127",
                                                     "128",
                                                     "136",
                                                     "144",
                                                     "145",
                                                     "-1",
                                                     "0.5",
                                                     "1e9",
                                                     "4294967296",
                                                     "4611686018427387904",
                                                     "9223372036854775807",
                                                     "18446744073709551615",
                                                     "1e400"};
    const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    const auto begin =
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), is_digit);
    const auto end = std::find_if_not(begin, text.end(), is_digit);
    text.replace(begin, end, numbers[below(numbers.size())]);
  }

  std::mt19937 random_;
};

/// Returns what is wrong with tensors that were accepted.
std::string broken_promise(const safetensors_contents& contents, const_bytes file) {
  std::size_t bytes = 0;
  for (const auto& tensor : contents.tensors) {
    const auto begin = tensor.bytes.data() - file.data();
    if (!tensor.bytes.empty() &&
        (begin < 8 || static_cast<std::size_t>(begin) + tensor.bytes.size() > file.size()))
      return tensor.name + " lies outside of the file";
    auto size = element_size(tensor.type);
    for (const auto dimension : tensor.shape)
      size *= static_cast<std::size_t>(dimension);
    if (size != tensor.bytes.size())
      return tensor.name + " has another size than its shape";
    bytes += size;
  }
  return bytes <= file.size() - 8 ? "" : "the tensors overlap";
}

std::uint32_t chosen_seed() {
  const auto* const wanted = std::getenv("FERRY_TEST_SEED");
  const auto seed =
      wanted ? static_cast<std::uint32_t>(std::stoul(wanted)) : std::random_device()();
  std::cout << "repeat with FERRY_TEST_SEED=" << seed << std::endl;
  return seed;
}

TEST_CASE("a file damaged at random is refused or read within its bounds",
          "[offload][safetensors]") {
  mutator damage(chosen_seed());
  std::string broken;
  int accepted = 0;

  for (int i = 0; i < 5000 && broken.empty(); ++i) {
    const auto file = damage.damaged();
    const auto bytes = std::vector<std::byte>(std::as_bytes(std::span(file)).begin(),
                                              std::as_bytes(std::span(file)).end());
    if (const auto contents = read_safetensors(bytes, "damaged")) {
      broken = broken_promise(*contents, bytes);
      ++accepted;
    }
  }

  CHECK(broken == "");
  CHECK(accepted > 0);
}

} // namespace
} // namespace ferry
