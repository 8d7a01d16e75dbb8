// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ferry {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using test::run_program;

const std::string layer = R"({"mode":"layer","components":["dit","text_encoder"]})";

std::string data(const std::string& name) {
  return (std::filesystem::path(FERRY_TEST_DATA) / name).string();
}

TEST_CASE("what an image pipeline cannot do is refused by name and limit", "[app][run]") {
  using words = std::vector<std::string>;
  const auto [arguments, expected] = GENERATE(table<words, std::string>({
      {{"--frames", "5"}, "frames is 5; expected 1"},
      {{"--size", "100x64"}, "the width of size 100x64 is 100; expected a multiple of 8"},
      {{"--negative-prompt-ids", "1"}, "takes no negative prompt"},
      {{"--prompt-ids", "256"}, "prompt_ids[0] is 256; expected an integer from 0 to 255"},
      {{"--second-prompt-ids", "256"}, "second_prompt_ids[0] is 256"},
      {{"--guidance", "-1"}, "guidance is -1; expected a number from 0 to 3.40282e+38"},
      {{"--guidance", "1e300"}, "guidance is 1e+300; expected a number from 0 to 3.40282e+38"},
      {{"--guidance", "nan"}, "guidance is nan; expected a number from 0"},
  }));
  words all{"run", data("flux-tiny"), "--device", "sim"};
  all.insert(all.end(), arguments.begin(), arguments.end());

  const auto done = run_program(all);

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(expected));
}

TEST_CASE("too little memory for ranks is refused once, with the rank that it was",
          "[app][run][ranks]") {
  const auto done = run_program({"run", data("wan-tiny"), "--config", layer, "--device", "host",
                                 "--device-memory", "4KiB", "--ranks", "2"});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("needs at least"));
  CHECK(std::count(done.err.begin(), done.err.end(), '\n') == 1);
}

TEST_CASE("ranks that are threads are refused where they have no GPU each", "[app][run][ranks]") {
  test::running_program ranks({"run", data("wan-tiny"), "--ranks", "2", "--device", "cuda"},
                              {"CUDA_VISIBLE_DEVICES="});

  const auto done = ranks.finish();

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("cuda"));
  CHECK(std::ranges::count(done.err, '\n') == 1);
}

TEST_CASE("what can be rejected is rejected before anything moves", "[app][run]") {
  using words = std::vector<std::string>;
  const auto [arguments, expected] = GENERATE(table<words, std::string>({
      {{"--config", R"({"mode":"layer"})"}, "components"},
      {{"--config", "@/no/such/file.json"}, "/no/such/file.json"},
      {{"--config", "nope.json"}, "is no JSON; for a file of that name write --config @nope.json"},
      {{"--config", layer, "--device", "host", "--device-memory", "4KiB"}, "needs at least"},
      {{"--device-memory", "1000"}, "needs at least"},
      {{"--config", "AUTO"}, "--config is 'AUTO'; write --config auto, in small letters"},
      {{"--report", ""}, "--report"},
      {{"--device", ""}, "--device is ''; expected sim, host or cuda"},
      {{"--device", "abacus"}, "abacus"},
      {{"--device", "cuda"}, "cuda"},
      {{"--device-memory", "5 potatoes"}, "--device-memory"},
      {{"--device", "sim", "--config", layer, "--sim", "speed=9"}, "speed"},
      {{"--device", "host", "--config", layer, "--sim", "link=1GB/s"}, "expected --device sim"},
      {{"--device", "sim", "--sim", "link=1GB/s"}, "nothing is offloaded"},
      {{"--ranks", "0"}, "--ranks is '0'; expected an integer from 1 to 64"},
      {{"--ranks", "65"}, "--ranks is '65'; expected an integer from 1 to 64"},
      {{"--ranks", "two"}, "--ranks is 'two'; expected an integer from 1 to 64"},
      {{"--join-patience", "3"}, "--join-patience is 3 and no launcher started other processes"},
      {{"--compute-dtype", "fp8"}, "--compute-dtype is 'fp8'; expected bf16, f32, or auto"},
      {{"--size", "7by3"}, "7by3"},
      {{"--size", "7x3"}, "size"},
      {{"--steps", "0"}, "--steps is '0'; expected an integer from 1 to 1000"},
      {{"--steps", "4.5"}, "--steps is '4.5'; expected an integer from 1 to 1000"},
      {{"--steps", "1000000"}, "--steps is '1000000'; expected an integer from 1 to 1000"},
      {{"--steps", "99999999999999999999"},
       "--steps is '99999999999999999999'; expected an integer"},
      {{"--frames", "two"}, "--frames is 'two'; expected an integer"},
      {{"--seed", "18446744073709551616"},
       "--seed is '18446744073709551616'; expected an integer from 0 to 18446744073709551615"},
      {{"--seed", "-1"}, "--seed is '-1'; expected an integer from 0"},
      {{"--seed", "1.5"}, "--seed is '1.5'; expected an integer from 0"},
      {{"--dlo-resident-layers", "99999999999999999999"}, "--dlo-resident-layers is '9"},
      {{"--prompt-ids", "5,,7"}, "--prompt-ids is '5,,7'; expected token ids with commas"},
      {{"--prompt-ids", ""}, "--prompt-ids is ''; expected token ids"},
      {{"--prompt-ids", "5,7,"}, "--prompt-ids is '5,7,'; expected token ids"},
      {{"--prompt-ids", "five"}, "--prompt-ids is 'five'; expected token ids"},
      {{"--negative-prompt-ids", ","}, "--negative-prompt-ids is ','; expected token ids"},
      {{"--prompt-ids", "99999999999999999999"}, "--prompt-ids is '99999999999999999999'"},
      {{"--requests", "/no/such/requests"}, "--requests names '/no/such/requests'"},
      {{"--prompt-ids", "999999"}, "999999"},
      {{"--second-prompt-ids", "7"}, "this pipeline has one text encoder"},
      {{"--reference", "/no/such/reference"}, "/no/such/reference"},
      {{"--reference", "any", "--steps", "2"}, "leave --prompt-ids"},
      {{"--report", "/no/such/directory/r.json"}, "/no/such/directory"},
      {{"--trace", "/"}, "--trace"},
      {{"--report", "same.json", "--trace", "./same.json"}, "--report and --trace both name"},
      {{"--output", "/proc/nothing"}, "--output"},
  }));
  words all{"run", data("wan-tiny")};
  all.insert(all.end(), arguments.begin(), arguments.end());
  INFO(arguments.back());

  const auto done = run_program(all);

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(expected));
  CHECK(std::ranges::count(done.err, '\n') == 1);
  CHECK(done.out == "");
}

/// A checkpoint whose files may be harmed, one of them a link into a store beside it.
struct checkpoint_with_store {
  checkpoint_with_store() {
    fs::copy(data("flux-tiny"), checkpoint(), fs::copy_options::recursive);
    fs::create_directory(scratch.path() / "store");
    fs::rename(checkpoint() / "vae/config.json", scratch.path() / "store/blob");
    fs::create_symlink(scratch.path() / "store/blob", checkpoint() / "vae/config.json");
    fs::create_symlink(checkpoint() / "model_index.json", scratch.path() / "link.json");
    fs::create_hard_link(checkpoint() / "model_index.json", scratch.path() / "same.json");
    fs::create_directory_symlink(checkpoint(), scratch.path() / "alias");
    scratch.write("other/file", "");
  }
  [[nodiscard]] fs::path checkpoint() const { return scratch.path() / "flux"; }

  /// Every file by name.
  [[nodiscard]] std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(scratch.path()))
      all[entry.path()] = entry.is_regular_file() ? test::read_text(entry.path()) : "";
    return all;
  }

  test::scratch_directory scratch;
};

TEST_CASE("no result takes the place of a file of the checkpoint", "[app][run]") {
  const auto [option, name] = GENERATE(table<std::string, std::string>({
      {"--trace", "flux/model_index.json"},
      {"--trace", "flux/vae/config.json"},
      {"--trace", "flux/transformer/diffusion_pytorch_model.safetensors"},
      {"--trace", "flux/trace.json"},
      {"--trace", "flux/../other/../flux/model_index.json"},
      {"--trace", "alias/model_index.json"},
      {"--trace", "link.json"},
      {"--trace", "same.json"},
      {"--trace", "store/blob"},
      {"--report", "flux/model_index.json"},
      {"--report", "link.json"},
      {"--output", "flux"},
      {"--output", "flux/out"},
      {"--output", "alias/out"},
  }));
  const checkpoint_with_store holds;
  const auto before = holds.contents();
  const auto path = (holds.scratch.path() / name).string();
  CAPTURE(option, name);

  const auto done = run_program({"run", holds.checkpoint(), "--device", "host", option, path});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(option + " names '") && Contains("is in the checkpoint"));
  CHECK(std::ranges::count(done.err, '\n') == 1);
  CHECK(holds.contents() == before);
}

TEST_CASE("no result takes the place of a file that is read", "[app][run]") {
  const auto [option, name, expected] = GENERATE(table<std::string, std::string, std::string>({
      {"--output", "", "which --reference names; expected another directory"},
      {"--trace", "linked", "--trace and --reference both name"},
      {"--report", "latents.safetensors", "--report and --reference both name"},
  }));
  const test::scratch_directory scratch;
  const auto reference = scratch.path() / "latents.safetensors";
  fs::copy(data("flux-tiny") + "/reference.safetensors", reference);
  fs::create_hard_link(reference, scratch.path() / "linked");
  const auto bytes = test::read_text(reference);

  const auto done = run_program({"run", data("flux-tiny"), "--device", "host", "--reference",
                                 reference, option, scratch.path() / name});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(expected));
  CHECK(test::read_text(reference) == bytes);
}

TEST_CASE("no result takes the place of another", "[app][run]") {
  const test::scratch_directory scratch;
  const auto out = scratch.path() / "out";

  const auto done = run_program({"run", data("flux-tiny"), "--device", "host", "--output", out,
                                 "--report", out / "picture.png"});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("which --report names; expected another directory"));
}

TEST_CASE("what is wrong in a file of a configuration is told of that file", "[app][run]") {
  const test::scratch_directory scratch;
  const auto [text, expected] = GENERATE(table<std::string, std::string>(
      {{R"({"mode":"layr","components":["dit"]})", ": mode is \"layr\"; expected"},
       {R"({"mode":"layer","components":["dit"],})", "is not JSON; look at byte 38"},
       {R"({"mode":"layer","components":["dit"],"slots":0})", ": slots is 0; expected"},
       {" \n", "which is empty; expected JSON"}}));
  const auto file = scratch.write("c.json", text).string();

  const auto done = run_program({"run", data("wan-tiny"), "--config", "@" + file});

  CAPTURE(done.err);
  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(file) && Contains(expected) && !Contains("@@"));
}

TEST_CASE("a configuration may come from standard input", "[app][run]") {
  const auto said = [](const std::string& text) {
    return test::run({"/bin/sh", "-c",
                      "printf '" + text + "' | '" FERRY_PROGRAM "' run '" + data("wan-tiny") +
                          "' --device sim --steps 1 --report - --config @-"});
  };

  const auto ran = said(layer);

  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, Contains("\"strategy\": \"layer_wise\""));
  CHECK_THAT(said("").err, Contains("--config names standard input, which is empty"));
  const auto closed = test::run(
      {"/bin/sh", "-c",
       "timeout -s KILL 20 '" FERRY_PROGRAM "' run '" + data("wan-tiny") + "' --config @- <&-"});
  CHECK(closed.code == 2);
  CHECK_THAT(closed.err, Contains("--config names standard input, which is empty"));
  CHECK_THAT(said("{").err, Contains("--config @-: the offload configuration is not JSON"));
}

TEST_CASE("a configuration that is the name of a file asks for its @", "[app][run]") {
  const test::scratch_directory scratch;
  const auto file = scratch.write("c.json", layer).string();

  const auto done = run_program({"run", data("wan-tiny"), "--config", file});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("is a file; write --config @" + file));
}

} // namespace
} // namespace ferry
