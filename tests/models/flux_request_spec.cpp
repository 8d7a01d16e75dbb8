// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flux_request.hpp"

#include "models/reference_run.hpp"
#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

#include <ATen/ATen.h>

#include <functional>

namespace {

using ferry::flux_limits;
using ferry::request;

const flux_limits limits{.clip_vocabulary = 200,
                         .clip_positions = 16,
                         .t5_vocabulary = 256,
                         .latent_channels = 4,
                         .pixels_per_latent = 4};

request valid_request() {
  request asked;
  asked.positive.ids = {5, 17, 9};
  asked.frames = 1;
  return asked;
}

struct bad_field {
  std::function<void(request&)> make;
  std::string message;
};

bad_field each_bad_field() {
  return GENERATE(
      bad_field{[](request& r) { r.positive.ids[1] = 200; },
                "prompt_ids[1] is 200; expected an integer from 0 to 199, the limits of "
                "text_encoder"},
      bad_field{[](request& r) { r.positive.ids.resize(17); },
                "the number of prompt_ids is 17; expected an integer from 1 to 16, the limits of "
                "text_encoder"},
      bad_field{[](request& r) { r.positive.ids.clear(); }, "the number of prompt_ids is 0"},
      bad_field{[](request& r) { r.second.ids = {256}; },
                "second_prompt_ids[0] is 256; expected an integer from 0 to 255, the limits of "
                "text_encoder_2"},
      bad_field{[](request& r) { r.second.ids.resize(513); },
                "the number of second_prompt_ids is 513; expected an integer from 1 to 512"},
      bad_field{[](request& r) { r.positive.mask = {1, 1, 0}; },
                "the length of the mask of prompt_ids is 3; expected 0"},
      bad_field{[](request& r) { r.second.mask = {1}; },
                "the length of the mask of second_prompt_ids is 1; expected 0"},
      bad_field{[](request& r) { r.negative.ids = {1}; },
                "the length of negative_prompt_ids is 1; expected 0: this pipeline takes no "
                "negative prompt"},
      bad_field{[](request& r) { r.steps = 1000000; },
                "steps is 1000000; expected an integer from 1 to 1000"},
      bad_field{[](request& r) { r.guidance = -1; },
                "guidance is -1; expected a number from 0 to 3.40282e+38, the largest float"},
      bad_field{[](request& r) { r.width = 100; },
                "the width of size 100x64 is 100; expected a multiple of 8 from 8 to 4096"},
      bad_field{[](request& r) { r.height = 4104; },
                "the height of size 96x4104 is 4104; expected a multiple of 8 from 8 to 4096"},
      bad_field{[](request& r) { r.frames = 5; }, "frames is 5; expected 1"},
      bad_field{[](request& r) { r.initial_latents = at::zeros({1, 96, 16}, at::kHalf); },
                "the type of initial_latents is Half; expected Float"},
      bad_field{[](request& r) { r.initial_latents = at::zeros({1, 95, 16}); },
                "the shape of initial_latents is [1, 95, 16]; expected [1, 96, 16]"});
}

} // namespace

TEST_CASE("a FLUX request within the limits is let through") {
  auto asked = valid_request();
  asked.second.ids.assign(512, 255);
  asked.initial_latents = at::zeros({1, 96, 16});

  CHECK(validate(asked, limits));
}

TEST_CASE("a FLUX request is refused with the field, its value and its limits") {
  const auto bad = each_bad_field();
  auto asked = valid_request();
  bad.make(asked);

  const auto valid = validate(asked, limits);

  REQUIRE(!valid);
  CHECK(valid.error().code == ferry::errc::invalid_argument);
  CHECK_THAT(valid.error().detail, Catch::Contains(bad.message));
}

TEST_CASE("a token is two by two latents, row by row") {
  const auto latents = at::arange(2 * 4 * 6).view({1, 2, 4, 6});

  const auto tokens = ferry::pack_latents(latents);

  CHECK(tokens.sizes() == at::IntArrayRef{1, 6, 8});
  CHECK(at::equal(tokens[0][1], at::tensor({2, 3, 8, 9, 26, 27, 32, 33}, at::kLong)));
  CHECK(at::equal(ferry::unpack_latents(tokens, {2, 3}), latents));
}

TEST_CASE("the seed decides the noise that a FLUX request starts from") {
  auto asked = valid_request();
  auto other = asked;
  other.seed = 1;

  const auto latents = ferry::starting_latents(asked, limits);

  CHECK(latents.sizes() == at::IntArrayRef{1, 8 * 12, 16});
  CHECK(at::equal(latents, ferry::starting_latents(asked, limits)));
  CHECK(!at::equal(latents, ferry::starting_latents(other, limits)));
}

TEST_CASE("a reference file of FLUX describes the request that made it") {
  const auto file = ferry::test::golden("flux-tiny") / "reference.safetensors";

  const auto asked =
      ferry::read_flux_request(ferry::reference_run::open(file).value(), limits).value();

  CHECK(asked.steps == 3);
  CHECK(asked.guidance == 3.5);
  CHECK(asked.positive.ids.size() == 16);
  CHECK(asked.second.ids.size() == 10);
  CHECK(asked.width == 64);
  CHECK(asked.height == 48);
}

TEST_CASE("a reference file of FLUX without an input is refused with its name") {
  const auto name =
      GENERATE(as<std::string>{}, "clip_input_ids", "t5_input_ids", "initial_latents", "image_ids");
  const ferry::test::pipeline_copy copy{"flux-tiny"};
  copy.change_header("reference.safetensors", [&](nlohmann::json& header) {
    header["other"] = header[name];
    header.erase(name);
  });
  const auto reference = ferry::reference_run::open(copy.path() / "reference.safetensors").value();

  const auto asked = ferry::read_flux_request(reference, limits);

  REQUIRE(!asked);
  CHECK_THAT(asked.error().detail, Catch::Contains(name + " is missing or malformed"));
}
