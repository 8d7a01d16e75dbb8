// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/weights.hpp"

#include "torch/catch.hpp"

#include <ATen/ATen.h>

namespace {

using ferry::errc;

/// A checkpoint with one tensor, `a.b.weight`.
struct one_tensor {
  at::Tensor tensor = at::ones({2, 3});
  ferry::tensor_lookup find = [this](const std::string& name, ferry::precision) {
    return name == "a.b.weight" ? tensor : at::Tensor{};
  };
  std::vector<ferry::failure> problems;
  ferry::weights root{"transformer", find, problems};
};

} // namespace

TEST_CASE("a module gets the checkpoint's own tensor") {
  one_tensor checkpoint;

  const auto taken = checkpoint.root.child("a").child("b").take("weight", {2, 3});

  CHECK(taken.is_same(checkpoint.tensor));
  CHECK(checkpoint.problems.empty());
}

TEST_CASE("a missing tensor is named with its component and expected shape") {
  one_tensor checkpoint;

  const auto taken = checkpoint.root.child("a").take("bias", {4});

  CHECK(!taken.defined());
  REQUIRE(checkpoint.problems.size() == 1);
  CHECK(checkpoint.problems[0].code == errc::invalid_checkpoint);
  CHECK(checkpoint.problems[0].detail == "transformer has no tensor 'a.bias'; expected shape [4]");
}

TEST_CASE("a tensor of another shape is named with both shapes") {
  one_tensor checkpoint;

  const auto taken = checkpoint.root.child("a.b").take("weight", {3, 2});

  CHECK(!taken.defined());
  REQUIRE(checkpoint.problems.size() == 1);
  CHECK(checkpoint.problems[0].detail ==
        "transformer: tensor 'a.b.weight' has shape [2, 3]; expected [3, 2]");
}

TEST_CASE("a tensor that is no floating-point number is unsupported") {
  one_tensor checkpoint;
  checkpoint.tensor = at::ones({2, 3}, at::kChar);

  const auto taken = checkpoint.root.child("a.b").take("weight", {2, 3});

  CHECK(!taken.defined());
  REQUIRE(checkpoint.problems.size() == 1);
  CHECK(checkpoint.problems[0].code == errc::unsupported);
  CHECK_THAT(checkpoint.problems[0].detail, Catch::Contains("is of type Char"));
}

TEST_CASE("the first spelling that is there is taken") {
  one_tensor checkpoint;

  const auto taken = checkpoint.root.take_first({"shared.weight", "a.b.weight"}, {2, 3});

  CHECK(taken.is_same(checkpoint.tensor));
}

TEST_CASE("all spellings are named where none is there") {
  one_tensor checkpoint;

  static_cast<void>(checkpoint.root.take_first({"shared.weight", "tokens.weight"}, {2, 3}));

  REQUIRE(checkpoint.problems.size() == 1);
  CHECK_THAT(checkpoint.problems[0].detail,
             Catch::Contains("no tensor 'shared.weight' or 'tokens.weight'"));
}
