// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/resident_weights.hpp>
#include <ferry/platform/memory.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"

#include <cstdint>

namespace ferry {
namespace {

using namespace ferry::test;

fake_tensor_ptr weight_of(const fake_node& root, std::string_view path) {
  return root->at(path)->own_tensors().at("weight");
}

TEST_CASE("resident weights are an aligned copy that goes away again", "[offload][resident]") {
  const auto root = node("test.root")->child("denoiser", node("dit")->child("blocks", blocks(2)));
  fake_pipeline subject{root};
  const auto second = weight_of(root, "denoiser.blocks.1");
  const auto* original = second->bytes().data();

  {
    const resident_weights copy{subject};

    CHECK(copy.bytes() == 2 * memory_alignment);
    CHECK(second->bytes().data() != original);
    CHECK(reinterpret_cast<std::uintptr_t>(second->bytes().data()) % memory_alignment == 0);
    CHECK(second->bytes().front() == std::byte{2});
  }

  CHECK(second->bytes().data() == original);
}

TEST_CASE("weights that share memory weigh it once", "[offload][resident]") {
  const auto matrix = tensor({4, 4});
  const auto root =
      node("test.root")
          ->child("embed", node("embed")->parameter("weight", matrix))
          ->child("head", node("head")->parameter("weight", view(matrix, {16}, {1}, 0)));

  CHECK(weight_bytes(root) == 4 * 4 * 4);
}

} // namespace
} // namespace ferry
