// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "output_digests.hpp"

#include <ferry/torch/mapped_tensor.hpp>

#include "torch/catch.hpp"

#include <memory>
#include <span>
#include <vector>

namespace ferry {
namespace {

at::Tensor tensor(std::vector<float> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  return tensor_over(owner, std::as_bytes(std::span(*owner)), dtype::f32, {size});
}

generated made_of(const std::vector<float>& latents, const std::vector<float>& pictures) {
  return {.latents = tensor(latents),
          .pictures = pictures.empty() ? at::Tensor() : tensor(pictures)};
}

bool same(const generated& a, const generated& b) {
  output_digests first;
  output_digests second;
  first.add(0, a);
  second.add(0, b);
  return first == second;
}

TEST_CASE("outputs are the same only if latents and pictures are", "[app][output_digests]") {
  const auto made = made_of({1, 2}, {0, 0.5F});

  CHECK(same(made, made_of({1, 2}, {0, 0.5F})));
  CHECK_FALSE(same(made, made_of({1, 3}, {0, 0.5F})));
  CHECK_FALSE(same(made, made_of({1, 2}, {0, 0.25F})));
  CHECK_FALSE(same(made, made_of({1, 2}, {})));
  CHECK(same(made_of({1}, {}), made_of({1}, {})));
}

TEST_CASE("outputs of different requests are not the same", "[app][output_digests]") {
  output_digests first;
  output_digests second;
  first.add(0, made_of({1}, {}));
  second.add(1, made_of({1}, {}));

  CHECK_FALSE(first == second);
}

TEST_CASE("the sum over several outputs is that over their latents in a row",
          "[app][output_digests]") {
  output_digests several;
  output_digests one;
  several.add(0, made_of({1}, {5}));
  several.add(1, made_of({2, 3}, {}));
  one.add(0, made_of({1, 2, 3}, {}));

  CHECK(several.of_latents() == one.of_latents());
  CHECK(one.of_latents().size() == 64);
}

} // namespace
} // namespace ferry
