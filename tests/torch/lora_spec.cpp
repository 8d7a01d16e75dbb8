// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/torch/lora.hpp>
#include <ferry/torch/mapped_tensor.hpp>

#include "torch/catch.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using strings = std::vector<std::string>;

at::Tensor values(at::IntArrayRef shape, int seed) {
  return (at::arange(c10::multiply_integers(shape), at::kFloat) * 1.7 + seed).sin().reshape(shape);
}

/// Weights of one component in ordinary tensors. Refuses an update when it is told to.
class tensor_store final : public weight_store {
public:
  result<weight_version> update_weights(weight_update update) override {
    if (refuse)
      return tl::unexpected(failure{errc::busy, "a request is running"});
    for (const auto& each : update.values)
      std::memcpy(tensors.at(each.name).data_ptr(), each.bytes.data(), each.bytes.size());
    return weight_version{++version};
  }

  result<weight_snapshot> read_weights(std::string, std::vector<std::string> names) override {
    weight_snapshot all;
    for (const auto& name : names) {
      if (!tensors.contains(name))
        return tl::unexpected(failure{errc::not_found, "tensor '" + name + "' does not exist"});
      auto copy = std::make_shared<at::Tensor>(tensors.at(name).clone());
      const const_bytes bytes{static_cast<const std::byte*>(copy->data_ptr()), copy->nbytes()};
      all.values.push_back(
          {name, *dtype_of(copy->scalar_type()), copy->sizes().vec(), bytes, copy});
    }
    return all;
  }

  [[nodiscard]] std::map<std::string, at::Tensor> copies() const {
    std::map<std::string, at::Tensor> all;
    for (const auto& [name, tensor] : tensors)
      all.emplace(name, tensor.clone());
    return all;
  }

  [[nodiscard]] bool holds(const std::map<std::string, at::Tensor>& wanted) const {
    for (const auto& [name, tensor] : tensors)
      if (!at::equal(tensor, wanted.at(name)))
        return false;
    return true;
  }

  std::map<std::string, at::Tensor> tensors{
      {"query", values({6, 4}, 1)},
      {"half", values({6, 4}, 2).to(at::kBFloat16)},
      {"conv", values({6, 2, 2}, 3).to(at::kHalf)},
      {"double", values({6, 4}, 4).to(at::kDouble)},
      {"norm", values({6}, 5)},
  };
  std::uint64_t version = 0;
  bool refuse = false;
};

lora_delta delta(std::string tensor, int seed, std::int64_t rank = 2) {
  return {std::move(tensor), values({rank, 4}, seed), values({6, rank}, seed + 1)};
}

lora_adapter style(int seed = 10) {
  return {"style",
          0.5,
          {delta("query", seed), delta("half", seed + 2), delta("conv", seed + 4),
           delta("double", seed + 6)}};
}

TEST_CASE("an adapter is added in float32 and rounded once to the type of each tensor",
          "[torch][lora]") {
  tensor_store store;
  const auto base = store.copies();
  lora_adapters adapters(store, "transformer");

  REQUIRE(adapters.add(style()));

  for (const auto& each : style().deltas) {
    CAPTURE(each.tensor);
    const auto& old = base.at(each.tensor);
    const auto exact = old.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const auto product = at::matmul(each.up.to(exact), each.down.to(exact)).reshape(old.sizes());
    const auto expected = old.to(exact).add(product, 0.5).to(old.scalar_type());
    CHECK(at::equal(store.tensors.at(each.tensor), expected));
    CHECK_FALSE(at::equal(expected, old));
  }
  CHECK(at::equal(store.tensors.at("norm"), base.at("norm")));
}

TEST_CASE("removing the last adapter gives back the exact bytes, in any order", "[torch][lora]") {
  tensor_store store;
  const auto base = store.copies();
  lora_adapters adapters(store, "transformer");
  REQUIRE(adapters.add(style()));
  const auto alone = store.copies();
  REQUIRE(adapters.add({"detail", -2, {delta("query", 30, 3), delta("half", 31, 1)}}));
  CHECK(adapters.names() == strings{"style", "detail"});
  CHECK_FALSE(store.holds(alone));

  const auto first = GENERATE(as<std::string>{}, "style", "detail");
  REQUIRE(adapters.remove(first));
  CHECK(store.holds(alone) == (first == "detail"));
  REQUIRE(adapters.remove(first == "style" ? "detail" : "style"));

  CHECK(adapters.names().empty());
  CHECK(store.holds(base));
}

TEST_CASE("deltas that do not fit are refused together, and nothing is merged", "[torch][lora]") {
  tensor_store store;
  const auto base = store.copies();
  lora_adapters adapters(store, "transformer");
  auto narrow = delta("query", 1);
  narrow.down = values({2, 3}, 1);
  auto ranks = delta("half", 1);
  ranks.up = values({6, 3}, 1);

  const auto wrong = adapters.add({"wrong", 1, {narrow, ranks, delta("norm", 1)}});
  const auto unknown = adapters.add({"unknown", 1, {delta("key", 1)}});

  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == errc::invalid_argument);
  CHECK_THAT(wrong.error().detail, Contains("'query' (F32 [6, 4]) has up [6, 2] and down [2, 3]") &&
                                       Contains("expected [6, rank] and [rank, 4]") &&
                                       Contains("delta of 'half'") &&
                                       Contains("delta of 'norm' (F32 [6]) needs"));
  CHECK(unknown.error().code == errc::not_found);
  CHECK(adapters.names().empty());
  CHECK(store.holds(base));
  CHECK(store.version == 0);
}

TEST_CASE("an adapter whose scale is no finite number is refused, and nothing is merged",
          "[torch][lora]") {
  tensor_store store;
  const auto base = store.copies();
  lora_adapters adapters(store, "transformer");
  auto wrong = style();
  wrong.scale =
      GENERATE(std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity());

  const auto added = adapters.add(wrong);

  REQUIRE_FALSE(added);
  CHECK(added.error().code == errc::invalid_argument);
  CHECK_THAT(added.error().detail, Contains("adapter 'style' has scale"));
  CHECK(adapters.names().empty());
  CHECK(store.holds(base));
}

TEST_CASE("an adapter is merged once under its name, and none is removed that is not there",
          "[torch][lora]") {
  tensor_store store;
  lora_adapters adapters(store, "transformer");
  REQUIRE(adapters.add(style()));

  CHECK(adapters.add(style(50)).error().code == errc::already_enabled);
  CHECK(adapters.add({"empty", 1, {}}).error().code == errc::invalid_argument);
  CHECK(adapters.remove("detail").error().code == errc::not_found);
}

TEST_CASE("an update that the store refuses leaves the adapters as they were", "[torch][lora]") {
  tensor_store store;
  const auto base = store.copies();
  lora_adapters adapters(store, "transformer");
  REQUIRE(adapters.add(style()));
  store.refuse = true;

  CHECK(adapters.remove("style").error().code == errc::busy);
  CHECK(adapters.add({"detail", 1, {delta("query", 3)}}).error().code == errc::busy);
  CHECK(adapters.names() == strings{"style"});

  store.refuse = false;
  REQUIRE(adapters.remove("style"));
  CHECK(store.holds(base));
}

TEST_CASE("weights that others have replaced are not taken for merged ones", "[torch][lora]") {
  tensor_store store;
  lora_adapters adapters(store, "transformer");
  REQUIRE(adapters.add(style()));
  store.tensors.at("query").zero_();
  const auto replaced = store.copies();

  const auto removed = adapters.remove("style");

  REQUIRE_FALSE(removed);
  CHECK(removed.error().code == errc::stale_handle);
  CHECK_THAT(removed.error().detail, Contains("'query' of transformer was replaced"));
  CHECK(store.holds(replaced));
  adapters.forget();
  REQUIRE(adapters.add({"detail", 1, {delta("query", 3)}}));
  REQUIRE(adapters.remove("detail"));
  CHECK(store.holds(replaced));
}

} // namespace
} // namespace ferry
