// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/checkpoint.hpp>
#include <ferry/offload/checkpoint_writer.hpp>

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <stdexcept>

namespace ferry {
namespace {

/// Bytes that tell tensor and place apart.
void fill(const tensor_declaration& tensor, std::uint64_t offset, mutable_bytes chunk) {
  std::ranges::generate(chunk, [&, i = offset]() mutable {
    return static_cast<std::byte>(i++ % 251 ^ static_cast<std::uint64_t>(tensor.name[0]));
  });
}

std::vector<std::byte> filled(const tensor_declaration& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  fill(tensor, 0, bytes);
  return bytes;
}

TEST_CASE("a component within the limit is one file", "[offload][checkpoint_writer]") {
  const test::scratch_directory scratch;
  const tensor_declaration w{"w", dtype::f32, {3, 500'000}};

  write_component(scratch.path(), "model", {w, {"b", dtype::f32, {3}}}, 6'000'012, fill);

  const auto checkpoint = component_checkpoint::open(scratch.path());
  REQUIRE(checkpoint);
  CHECK((*checkpoint)->files().size() == 1);
  CHECK((*checkpoint)->files()[0]->metadata().at("format") == "pt");
  CHECK(std::ranges::equal((*checkpoint)->find("w")->bytes, filled(w)));
}

TEST_CASE("a component beyond the limit is split in order, with an index",
          "[offload][checkpoint_writer]") {
  const test::scratch_directory scratch;
  const std::vector<tensor_declaration> tensors = {{"a", dtype::f32, {10}},
                                                   {"b", dtype::f32, {10}},
                                                   {"c", dtype::f32, {100}},
                                                   {"d", dtype::f32, {1}}};

  write_component(scratch.path(), "diffusion_pytorch_model", tensors, 80, fill);

  const auto checkpoint = component_checkpoint::open(scratch.path());
  REQUIRE(checkpoint);
  REQUIRE((*checkpoint)->files().size() == 3);
  CHECK((*checkpoint)->files()[0]->tensors().size() == 2);
  CHECK((*checkpoint)->files()[1]->path().filename() ==
        "diffusion_pytorch_model-00002-of-00003.safetensors");
  CHECK((*checkpoint)->total_bytes() == 484);
  CHECK(std::ranges::equal((*checkpoint)->find("c")->bytes, filled(tensors[2])));
}

TEST_CASE("a source that fails leaves no unfinished file", "[offload][checkpoint_writer]") {
  const test::scratch_directory scratch;
  const auto fail = [](const tensor_declaration&, std::uint64_t, mutable_bytes) {
    throw std::runtime_error("no more");
  };

  CHECK_THROWS_WITH(write_component(scratch.path(), "model", {{"a", dtype::u8, {1}}}, 10, fail),
                    "no more");
  CHECK(std::filesystem::is_empty(scratch.path()));
}

} // namespace
} // namespace ferry
