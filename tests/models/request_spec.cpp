// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/request.hpp"

#include "torch/catch.hpp"

#include <ATen/ATen.h>

#include <functional>
#include <limits>

namespace {

using ferry::errc;
using ferry::request;
using ferry::request_limits;

const request_limits limits{
    .vocabulary = 256, .channels = 16, .max_positions = 64, .patch = {1, 2, 2}};

request valid_request() {
  request asked;
  asked.positive.ids = {5, 17, 9};
  asked.negative.ids = {1};
  return asked;
}

struct bad_field {
  std::function<void(request&)> make;
  std::string message;
};

bad_field each_bad_field() {
  const auto ids = [](request& r) -> auto& { return r.positive.ids; };
  return GENERATE_COPY(
      bad_field{[=](request& r) { ids(r)[1] = 999999; },
                "prompt_ids[1] is 999999; expected an integer from 0 to 255"},
      bad_field{[=](request& r) { ids(r)[0] = -1; },
                "prompt_ids[0] is -1; expected an integer from 0 to 255"},
      bad_field{[=](request& r) { ids(r).clear(); },
                "the number of prompt_ids is 0; expected an integer from 1 to 512"},
      bad_field{[=](request& r) { ids(r).resize(513); },
                "the number of prompt_ids is 513; expected an integer from 1 to 512"},
      bad_field{[](request& r) { r.negative.ids = {256}; },
                "negative_prompt_ids[0] is 256; expected an integer from 0 to 255"},
      bad_field{[](request& r) { r.positive.mask = {1}; },
                "the length of the mask of prompt_ids is 1; expected one entry an id, 3"},
      bad_field{[](request& r) { r.positive.mask = {1, 2, 0}; },
                "an entry of the mask of prompt_ids is 2; expected an integer from 0 to 1"},
      bad_field{[](request& r) { r.positive.mask = {0, 0, 0}; },
                "the number of ids that the mask of prompt_ids lets through is 0; expected an "
                "integer from 1 to 3"},
      bad_field{[](request& r) { r.steps = 0; }, "steps is 0; expected an integer from 1 to 1000"},
      bad_field{[](request& r) { r.steps = 1000000000; },
                "steps is 1000000000; expected an integer from 1 to 1000"},
      bad_field{[](request& r) { r.guidance = -0.5; },
                "guidance is -0.5; expected a number from 0 to 3.40282e+38, the largest float"},
      bad_field{[](request& r) { r.guidance = std::numeric_limits<double>::infinity(); },
                "guidance is inf; expected a number from 0 to 3.40282e+38, the largest float"},
      bad_field{[](request& r) { r.width = 7; },
                "the width of size 7x64 is 7; expected a multiple of 16 from 16 to 1024"},
      bad_field{[](request& r) { r.height = 24; },
                "the height of size 96x24 is 24; expected a multiple of 16 from 16 to 1024"},
      bad_field{[](request& r) { r.width = 1040; },
                "the width of size 1040x64 is 1040; expected a multiple of 16 from 16 to 1024"},
      bad_field{[](request& r) { r.frames = 8; }, "frames is 8; expected 4k+1, at most 253"},
      bad_field{[](request& r) { r.frames = 257; }, "frames is 257; expected 4k+1, at most 253"},
      bad_field{[](request& r) { r.frames = 0; }, "frames is 0; expected 4k+1, at most 253"},
      bad_field{[](request& r) { r.initial_latents = at::zeros({1, 4, 1, 2, 2}); },
                "the shape of initial_latents is [1, 4, 1, 2, 2]; expected [1, 16, frames, rows, "
                "columns]"},
      bad_field{[](request& r) { r.initial_latents = at::zeros({1, 16, 1, 2, 3}); },
                "the columns of initial_latents is 3; expected a multiple of 2 from 2 to 128"},
      bad_field{[](request& r) { r.initial_latents = at::zeros({1, 16, 1, 0, 2}); },
                "the rows of initial_latents is 0; expected a multiple of 2 from 2 to 128"},
      bad_field{[](request& r) { r.initial_latents = at::zeros({1, 16, 1, 2, 2}, at::kDouble); },
                "the type of initial_latents is Double; expected Float"});
}

} // namespace

TEST_CASE("a request is refused with field, value and limits") {
  const auto bad = each_bad_field();
  auto asked = valid_request();
  bad.make(asked);

  const auto checked = validate(asked, limits);

  REQUIRE(!checked);
  CHECK(checked.error().code == errc::invalid_argument);
  CHECK(checked.error().detail == bad.message);
}

TEST_CASE("a request within its limits is valid") {
  auto asked = valid_request();
  asked.width = 1024;
  asked.height = 16;
  asked.frames = 253;
  asked.steps = 1000;
  asked.guidance = 0;
  asked.positive.ids.resize(512);

  CHECK(validate(asked, limits));
}

TEST_CASE("without guidance the negative prompt is not looked at") {
  auto asked = valid_request();
  asked.negative.ids.clear();
  asked.guidance = 1.0;

  CHECK(validate(asked, limits));
}

TEST_CASE("the smallest request is valid and a patch in size") {
  auto wide = limits;
  wide.patch = {2, 4, 3};
  wide.vocabulary = 1;

  const auto smallest = ferry::smallest_request(wide);

  CHECK(ferry::validate(smallest, wide));
  CHECK(smallest.steps == 1);
  CHECK(ferry::latent_shape(smallest, wide) == std::vector<std::int64_t>{1, 16, 2, 4, 3});
}

TEST_CASE("a size in pixels and frames is a shape of latents") {
  auto asked = valid_request();
  asked.width = 96;
  asked.height = 64;
  asked.frames = 9;

  CHECK(latent_shape(asked, limits) == std::vector<std::int64_t>{1, 16, 3, 8, 12});
}

TEST_CASE("latents that are given take the place of a size") {
  auto asked = valid_request();
  asked.width = 7;
  asked.initial_latents = at::zeros({1, 16, 1, 4, 4});

  CHECK(validate(asked, limits));
  CHECK(latent_shape(asked, limits) == std::vector<std::int64_t>{1, 16, 1, 4, 4});
}

TEST_CASE("equal seeds start from equal latents, different seeds do not") {
  auto first = valid_request();
  auto second = valid_request();
  second.seed = 1;

  const auto latents = starting_latents(first, limits);

  CHECK(at::equal(latents, starting_latents(first, limits)));
  CHECK(!at::equal(latents, starting_latents(second, limits)));
}
