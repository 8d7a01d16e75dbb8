// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/loader_transforms.hpp>
#include <ferry/offload/packing.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/plus_one.hpp"
#include "support/read_only_pages.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::plus_one_for;

/// Notes what it is given and writes zeros.
class noting final : public weight_transform {
public:
  explicit noting(stored_tensor& seen) : seen_(&seen) {}
  [[nodiscard]] std::string_view name() const override { return "noting"; }
  void apply(const stored_tensor& source, mutable_bytes target) const override {
    *seen_ = source;
    std::ranges::fill(target, std::byte{0});
  }

private:
  stored_tensor* seen_;
};

/// A denoiser of two blocks, one of them in a mapped file, as two units.
struct two_units {
  [[nodiscard]] result<std::vector<std::vector<pending_transform>>>
  take(const std::shared_ptr<loader_transforms>& left) {
    const std::vector<const packed_layout*> layouts{&first->layout(), &second->layout()};
    return left->take(model.root(), layouts);
  }
  [[nodiscard]] int at(const test::fake_node& block, const std::string& name) const {
    return std::to_integer<int>(block->own_tensors().at(name)->bytes().front());
  }

  test::read_only_pages file{1, 5};
  test::fake_tensor_ptr tied = test::mapped_tensor(file.bytes().subspan(1024), {4});
  test::fake_node ordinary = test::node("test.block")
                                 ->parameter("weight", test::tensor({2, 8}, dtype::f32, 3))
                                 ->parameter("other", test::tensor({4}, dtype::f32, 3));
  test::fake_node in_file = test::node("test.block")
                                ->parameter("weight", test::mapped_tensor(file.bytes(), {16}))
                                ->parameter("one", tied)
                                ->parameter("two", tied);
  test::fake_pipeline model{
      test::node("test.root")
          ->child("transformer",
                  test::node("test.dit")->child("blocks", test::list({ordinary, in_file})))};
  std::unique_ptr<weight_unit> first = model.make_unit("0", pack(ordinary->tensors()));
  std::unique_ptr<weight_unit> second = model.make_unit("1", pack(in_file->tensors()));
};

TEST_CASE("each transform goes to the unit of its tensor, and is taken once",
          "[offload][loader_transforms]") {
  two_units of;
  const auto left = plus_one_for({"transformer.blocks.1.weight", "transformer.blocks.0.other"});

  const auto taken = of.take(left);

  REQUIRE(taken);
  REQUIRE(taken->size() == 2);
  REQUIRE((*taken)[0].size() == 1);
  CHECK((*taken)[0][0].place.name == "blocks.0.other");
  CHECK((*taken)[1].size() == 1);
  CHECK(left->empty());
}

TEST_CASE("a transform rearranges its tensor alone, and a mapped file stays as it is",
          "[offload][loader_transforms]") {
  two_units of;
  const auto taken =
      of.take(plus_one_for({"transformer.blocks.0.weight", "transformer.blocks.1.weight"}));

  (*taken)[0][0].apply(*of.first);
  (*taken)[1][0].apply(*of.second);

  CHECK(of.at(of.ordinary, "weight") == 4);
  CHECK(of.at(of.ordinary, "other") == 3);
  CHECK(of.at(of.in_file, "weight") == 6);
  CHECK(of.at(of.in_file, "one") == 5);
  CHECK(of.second->originals_kind(0) == memory_kind::pageable);
  CHECK(of.second->originals_kind(1) == memory_kind::mapped);
  CHECK(of.file.bytes().front() == std::byte{5});
}

TEST_CASE("a transform is given the tensor as it is stored, under its key",
          "[offload][loader_transforms]") {
  two_units of;
  stored_tensor seen;
  host_weight_plan plan;
  plan.bindings["transformer.blocks.0.weight"] = {
      .key = "model.w", .file = {}, .transform = std::make_shared<noting>(seen)};
  const auto taken = of.take(std::make_shared<loader_transforms>(plan));

  (*taken)[0][0].apply(*of.first);

  CHECK(seen.name == "model.w");
  CHECK(seen.type == dtype::f32);
  CHECK(seen.shape == std::vector<std::int64_t>{2, 8});
  CHECK(seen.bytes.size() == 64);
  CHECK(of.at(of.ordinary, "weight") == 0);
}

TEST_CASE("a tensor of two names is transformed once", "[offload][loader_transforms]") {
  two_units of;

  const auto taken =
      of.take(plus_one_for({"transformer.blocks.1.one", "transformer.blocks.1.two"}));

  REQUIRE(taken);
  CHECK((*taken)[1].size() == 1);
}

TEST_CASE("a tensor that is in no unit cannot be transformed, and nothing is taken",
          "[offload][loader_transforms]") {
  two_units of;
  const auto left = plus_one_for({"transformer.blocks.0.weight", "transformer.late"});

  const auto taken = of.take(left);

  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == errc::unsupported);
  CHECK_THAT(taken.error().detail, Contains("'transformer.late'") && Contains("'plus one'"));
  CHECK_FALSE(left->empty());
}

TEST_CASE("a plan without transforms leaves nothing to be done", "[offload][loader_transforms]") {
  host_weight_plan plan;
  plan.bindings["transformer.pos"] = {.key = "pos", .file = {}, .transform = nullptr};

  CHECK(loader_transforms{plan}.empty());
}

} // namespace
} // namespace ferry
