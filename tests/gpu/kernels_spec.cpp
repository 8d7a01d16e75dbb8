// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace ferry {
namespace {

/// The kinds of code in a fat binary: of one GPU, and what later ones are translated from.
enum class code_kind : std::uint16_t { ptx = 1, cubin = 2 };

struct found_code {
  std::set<std::uint32_t> cubins;
  std::set<std::uint32_t> ptx;
};

template <class Number>
Number read(const std::string& from, std::size_t at) {
  Number value{};
  REQUIRE(at + sizeof(value) <= from.size());
  std::memcpy(&value, from.data() + at, sizeof(value));
  return value;
}

/// Finds what nvcc has embedded in a file. A fat binary is a magic number, the length of its header
/// (at 6) and of what follows (at 8); each of its entries has its kind (0), the length of its
/// header (4) and of its contents (8), and its architecture (28).
found_code code_in(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  const std::string magic{"\x50\xed\x55\xba", 4};
  found_code found;
  for (auto at = bytes.find(magic); at != std::string::npos; at = bytes.find(magic, at + 1)) {
    const auto header = read<std::uint16_t>(bytes, at + 6);
    if (header != 16)
      continue;
    auto entry = at + header;
    const auto end = entry + read<std::uint64_t>(bytes, at + 8);
    while (entry < end) {
      const auto arch = read<std::uint32_t>(bytes, entry + 28);
      const auto kind = static_cast<code_kind>(read<std::uint16_t>(bytes, entry));
      (kind == code_kind::ptx ? found.ptx : found.cubins).insert(arch);
      entry += read<std::uint32_t>(bytes, entry + 4) + read<std::uint64_t>(bytes, entry + 8);
    }
  }
  return found;
}

TEST_CASE("the kernels are built for sm_80 and sm_90, and for what comes after them", "[kernels]") {
  const auto found = code_in("/proc/self/exe");

  CHECK(found.cubins.contains(80));
  CHECK(found.cubins.contains(90));
  CHECK(found.ptx.contains(90));
}

} // namespace
} // namespace ferry
