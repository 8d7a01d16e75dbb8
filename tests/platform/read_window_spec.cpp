// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/read_window.hpp"

#include "support/catch.hpp"

#include <array>

using namespace ferry;

namespace {

constexpr std::array<std::byte, 100> file{};

const_bytes part(std::size_t offset, std::size_t bytes) {
  return const_bytes(file).subspan(offset, bytes);
}

bool same(const_bytes left, const_bytes right) {
  return left.data() == right.data() && left.size() == right.size();
}

} // namespace

TEST_CASE("a read window asks for no more than its width beyond what has been copied") {
  read_window window(10);
  window.expect(part(0, 25));

  CHECK(same(window.next(), part(0, 10)));
  CHECK(window.next().empty());
  window.copied(4);
  CHECK(same(window.next(), part(10, 4)));
  CHECK(window.next().empty());
}

TEST_CASE("a read window reaches into the copies that are queued behind") {
  read_window window(10);
  window.expect(part(0, 3));
  window.expect({});
  window.expect(part(50, 3));
  window.expect(part(90, 10));

  CHECK(same(window.next(), part(0, 3)));
  CHECK(same(window.next(), part(50, 3)));
  CHECK(same(window.next(), part(90, 4)));
  CHECK(window.next().empty());
  window.copied(6);
  CHECK(same(window.next(), part(94, 6)));
  CHECK(window.next().empty());
}
