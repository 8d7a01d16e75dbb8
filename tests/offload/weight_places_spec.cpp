// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/weight_places.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/staging.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace ferry {
namespace {

using Catch::Contains;
using test::contents;
using strings = std::vector<std::string>;

contents counting(std::size_t bytes) {
  contents all(bytes);
  for (std::size_t i = 0; i != bytes; ++i)
    all[i] = std::byte(i);
  return all;
}

weight_value value(std::string name, std::vector<std::int64_t> shape, const contents& bytes) {
  return {std::move(name), dtype::f32, std::move(shape), bytes, nullptr};
}

/// A component of one block, a transposed matrix beside it, and a tensor tied to part of the block.
struct placed {
  placed() {
    const auto base = test::tensor({4, 3});
    component->child("blocks", test::blocks(1, 6))
        ->parameter("turned", test::view(base, {3, 4}, {1, 3}, 0))
        ->buffer("repeated", test::view(test::tensor({3}), {2, 3}, {0, 1}, 0))
        ->buffer("empty", test::tensor({0, 4}));
    const auto block = component->at("blocks.0")->own_tensors().at("weight");
    component->buffer("tail", test::view(block, {2}, {1}, 4))->parameter("twin", block);
    layout = pack(test::tensors_below(*component));
    const std::array<const packed_layout*, 1> units{&layout};
    places.emplace(root, units);
  }

  test::fake_node component = test::node("test.dit");
  test::fake_node root = test::node("test.root")->child("transformer", component);
  packed_layout layout;
  std::optional<weight_places> places;
};

TEST_CASE("tensors are found by name with their place, also views and ties", "[offload][weights]") {
  const placed at;

  const auto found = at.places->find("transformer", strings{"blocks.0.weight", "tail", "twin"});

  REQUIRE(found);
  const auto& [weight, tail, twin] = std::tie((*found)[0], (*found)[1], (*found)[2]);
  CHECK(weight.bytes() == 24);
  CHECK(tail.storage == weight.storage);
  CHECK(tail.first == weight.first + 16);
  CHECK(twin.first == weight.first);
  CHECK(at.places->find("transformer", {})->size() == 6);
}

TEST_CASE("rows go into a transposed matrix and come out again", "[offload][weights]") {
  const placed at;
  const auto turned = at.places->find("transformer", strings{"turned"}).value().front();
  const auto rows = counting(48);
  contents storage(at.layout.storages[turned.storage].bytes);

  scatter(rows, turned, storage);

  contents columns(48);
  for (std::size_t r = 0; r != 3; ++r)
    for (std::size_t c = 0; c != 4; ++c)
      std::copy_n(rows.begin() + std::ptrdiff_t(4 * (4 * r + c)), 4,
                  columns.begin() + std::ptrdiff_t(4 * (3 * c + r)));
  CHECK(storage == columns);
  contents back(48);
  gather(turned, storage, back);
  CHECK(back == rows);
}

TEST_CASE("every wrong value of an update is named with what it is and what was expected",
          "[offload][weights]") {
  const placed at;
  const contents ten(40);
  const contents six(24);

  const auto wrong =
      at.places->check({"transformer",
                        {value("blocks.0.weight", {10}, ten), value("turned", {3, 4}, six),
                         value("repeated", {2, 3}, six)}});

  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == errc::invalid_argument);
  CHECK_THAT(wrong.error().detail,
             Contains("'blocks.0.weight' is F32 [6]; the update has F32 [10]") &&
                 Contains("'turned' has 48 bytes; the update has 24") &&
                 Contains("'repeated' repeats elements"));
}

TEST_CASE("names that are not there, or not offloaded, are refused together",
          "[offload][weights]") {
  placed at;
  at.component->parameter("late", {4});

  const auto found = at.places->find("transformer", strings{"blocks.1.weight", "late", "nothing"});

  REQUIRE_FALSE(found);
  CHECK(found.error().code == errc::not_found);
  CHECK_THAT(found.error().detail, Contains("'blocks.1.weight' does not exist") &&
                                       Contains("'late' is not offloaded") &&
                                       Contains("'nothing' does not exist"));
  CHECK(at.places->find("text_encoder", {}).error().code == errc::not_found);
}

TEST_CASE("two names of one tensor take the same contents only", "[offload][weights]") {
  const placed at;
  const contents zeros(24);
  const auto others = counting(24);

  const auto agree = at.places->check(
      {"transformer", {value("blocks.0.weight", {6}, zeros), value("twin", {6}, zeros)}});
  const auto differ = at.places->check(
      {"transformer", {value("blocks.0.weight", {6}, zeros), value("twin", {6}, others)}});

  CHECK(agree);
  REQUIRE_FALSE(differ);
  CHECK_THAT(differ.error().detail,
             Contains("'twin' is the same as 'blocks.0.weight' and has other contents"));
}

} // namespace
} // namespace ferry
