// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/checkpoint.hpp>
#include <ferry/offload/pipeline_directory.hpp>

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ferry {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using test::run_program;
using words = std::vector<std::string>;

words small_checkpoint(const fs::path& directory, const words& more) {
  words arguments = {"checkpoint", "wan", directory.string(), "--blocks", "2",
                     "--hidden",   "48",  "--head-dim",       "24"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void write_small(const fs::path& directory, const words& more) {
  const auto done = run_program(small_checkpoint(directory, more));
  REQUIRE(done.err == "");
  REQUIRE(done.code == 0);
}

std::shared_ptr<const component_checkpoint> open(const fs::path& component) {
  const auto opened = component_checkpoint::open(component);
  REQUIRE(opened);
  return *opened;
}

bool equal(const component_checkpoint& a, const component_checkpoint& b) {
  return std::ranges::equal(a.tensors(), b.tensors(), [](const auto* one, const auto* other) {
    return one->name == other->name && one->shape == other->shape && one->type == other->type &&
           std::ranges::equal(one->bytes, other->bytes);
  });
}

std::set<std::string> keys_of(const fs::path& file) {
  const auto object = nlohmann::json::parse(test::read_text(file));
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items())
    keys.insert(key);
  return keys;
}

TEST_CASE("a written checkpoint is a pipeline of the size asked for", "[app][checkpoint_command]") {
  const test::scratch_directory scratch;
  const auto directory = scratch.path() / "new" / "wan";

  const auto done = run_program(small_checkpoint(directory, {"--dtype", "f16"}));

  CHECK(done.code == 0);
  CHECK(done.err == "");
  CHECK_THAT(done.out, Contains("wrote " + directory.string()));
  const auto pipeline = read_pipeline_directory(directory);
  REQUIRE(pipeline);
  CHECK(pipeline->class_name == "WanPipeline");
  CHECK(pipeline->components.size() == 4);
  const auto denoiser = open(directory / "transformer");
  const auto* weight = denoiser->find("blocks.1.attn1.to_q.weight");
  REQUIRE(weight);
  CHECK(weight->type == dtype::f16);
  CHECK(weight->shape == std::vector<std::int64_t>{48, 48});
  CHECK_FALSE(denoiser->find("blocks.2.attn1.to_q.weight"));
  CHECK(std::ranges::all_of(denoiser->tensors(), &stored_tensor::aligned));
}

TEST_CASE("written configurations have the keys that diffusers saves",
          "[app][checkpoint_command]") {
  const auto file =
      GENERATE(as<std::string>(), "transformer/config.json", "text_encoder/config.json",
               "scheduler/scheduler_config.json", "vae/config.json");
  const test::scratch_directory scratch;
  write_small(scratch.path(), {});

  auto expected = keys_of(fs::path(FERRY_TEST_DATA "/wan-tiny") / file);
  expected.erase("transformers_version");

  CHECK(keys_of(scratch.path() / file) == expected);
}

TEST_CASE("a written checkpoint of FLUX is a pipeline of the size asked for",
          "[app][checkpoint_command]") {
  const test::scratch_directory scratch;

  const auto done = run_program({"checkpoint", "flux", scratch.path().string(), "--blocks", "1",
                                 "--hidden", "48", "--head-dim", "24"});

  CHECK(done.code == 0);
  const auto pipeline = read_pipeline_directory(scratch.path());
  REQUIRE(pipeline);
  CHECK(pipeline->class_name == "FluxPipeline");
  CHECK(pipeline->components.size() == 5);
  const auto denoiser = open(scratch.path() / "transformer");
  CHECK(denoiser->find("transformer_blocks.0.attn.to_q.weight"));
  CHECK_FALSE(denoiser->find("transformer_blocks.1.attn.to_q.weight"));
  CHECK(denoiser->find("single_transformer_blocks.1.attn.to_q.weight"));
}

TEST_CASE("written configurations of FLUX have the keys that diffusers saves",
          "[app][checkpoint_command]") {
  const auto file =
      GENERATE(as<std::string>(), "transformer/config.json", "text_encoder/config.json",
               "text_encoder_2/config.json", "scheduler/scheduler_config.json", "vae/config.json",
               "model_index.json");
  const test::scratch_directory scratch;
  const auto done = run_program({"checkpoint", "flux", scratch.path().string(), "--blocks", "1",
                                 "--hidden", "48", "--head-dim", "24"});
  REQUIRE(done.code == 0);

  auto expected = keys_of(fs::path(FERRY_TEST_DATA "/flux-tiny") / file);
  expected.erase("transformers_version");

  CHECK(keys_of(scratch.path() / file) == expected);
}

TEST_CASE("the same seed gives the same bytes, however they are split into files",
          "[app][checkpoint_command]") {
  const test::scratch_directory scratch;
  const auto one = scratch.path() / "one";
  const auto many = scratch.path() / "many";
  const auto other = scratch.path() / "other";
  write_small(one, {"--seed", "7"});
  write_small(many, {"--seed", "7", "--shard-size", "20kB"});
  write_small(other, {"--seed", "8"});

  const auto whole = open(one / "transformer");
  const auto split = open(many / "transformer");

  CHECK(whole->files().size() == 1);
  CHECK(split->files().size() > 3);
  CHECK(equal(*whole, *split));
  CHECK_FALSE(equal(*whole, *open(other / "transformer")));
}

TEST_CASE("two denoisers have weights of their own and say where one takes over",
          "[app][checkpoint_command]") {
  const test::scratch_directory scratch;
  write_small(scratch.path(), {"--denoisers", "2"});

  const auto pipeline = read_pipeline_directory(scratch.path());

  REQUIRE(pipeline);
  CHECK(pipeline->boundary_ratio == 0.875);
  CHECK_FALSE(
      equal(*open(scratch.path() / "transformer"), *open(scratch.path() / "transformer_2")));
}

TEST_CASE("the autoencoder is left out where it is not wanted", "[app][checkpoint_command]") {
  const test::scratch_directory scratch;
  write_small(scratch.path(), {"--no-vae"});

  const auto pipeline = read_pipeline_directory(scratch.path());

  REQUIRE(pipeline);
  CHECK(pipeline->find("vae") == nullptr);
  CHECK_FALSE(fs::exists(scratch.path() / "vae"));
}

TEST_CASE("a directory that holds something is refused and left alone",
          "[app][checkpoint_command]") {
  const test::scratch_directory scratch;
  const auto file = scratch.write("keep/this", "mine");
  const auto target = scratch.path() / GENERATE(as<std::string>(), "keep/this", "keep");

  const auto done = run_program(small_checkpoint(target, {}));

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains(target.string() + "' is no"));
  CHECK(test::read_text(file) == "mine");
}

TEST_CASE("a checkpoint that the disk has no room for is refused before anything is written",
          "[app][checkpoint_command]") {
  const test::scratch_directory scratch;
  const auto target = scratch.path() / "wan";

  const auto done =
      run_program({"checkpoint", "wan", target.string(), "--blocks", "4096", "--hidden", "65536"});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("the checkpoint needs"));
  CHECK_FALSE(fs::exists(target));
}

TEST_CASE("a checkpoint that cannot be completed is removed", "[app][checkpoint_command]") {
  const test::scratch_directory scratch;
  const auto directory = scratch.path() / GENERATE(as<std::string>(), "new", "empty");
  fs::create_directory(scratch.path() / "empty");
  // No file may grow beyond 8 KiB, and the attempt is an error instead of a signal.
  words shell = {"/bin/sh", "-c", "ulimit -f 16; trap '' XFSZ; exec \"$@\"", "sh", FERRY_PROGRAM};
  const auto arguments = small_checkpoint(directory, {});
  shell.insert(shell.end(), arguments.begin(), arguments.end());

  const auto done = test::run(shell);

  CHECK(done.code == 1);
  CHECK_THAT(done.err, Contains("io_failure: cannot write '" + directory.string()));
  CHECK(std::ranges::count(done.err, '\n') == 1);
  CHECK(fs::exists(directory) == (directory.filename() == "empty"));
  CHECK((!fs::exists(directory) || fs::is_empty(directory)));
}

} // namespace
} // namespace ferry
