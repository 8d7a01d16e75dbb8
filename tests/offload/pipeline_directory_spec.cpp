// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/pipeline_directory.hpp>

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <string>

namespace ferry {
namespace {

using Catch::Matchers::Contains;

std::string refusal(const std::filesystem::path& directory) {
  const auto pipeline = read_pipeline_directory(directory);
  return pipeline ? "accepted" : describe(pipeline.error());
}

TEST_CASE("a pipeline that diffusers writes is read", "[offload][pipeline_directory]") {
  const auto pipeline = read_pipeline_directory(FERRY_TEST_DATA "/wan-dual-tiny");

  REQUIRE(pipeline);
  CHECK(pipeline->class_name == "WanPipeline");
  CHECK(pipeline->boundary_ratio == 0.875);
  CHECK(pipeline->components.size() == 5);
  const auto* denoiser = pipeline->find("transformer_2");
  REQUIRE(denoiser);
  CHECK(denoiser->library == "diffusers");
  CHECK(denoiser->class_name == "WanTransformer3DModel");
  CHECK(denoiser->directory == FERRY_TEST_DATA "/wan-dual-tiny/transformer_2");
}

TEST_CASE("components declared as null are left out, and settings are passed over",
          "[offload][pipeline_directory]") {
  const test::scratch_directory scratch;
  scratch.write("model_index.json",
                R"({"_class_name":"WanPipeline","_name_or_path":"x","transformer_2":[null,null],)"
                R"("boundary_ratio":null,"expand_timesteps":false})");

  const auto pipeline = read_pipeline_directory(scratch.path());

  REQUIRE(pipeline);
  CHECK(pipeline->components.empty());
  CHECK_FALSE(pipeline->boundary_ratio);
}

TEST_CASE("a directory without model_index.json is no pipeline", "[offload][pipeline_directory]") {
  const test::scratch_directory scratch;
  const auto [name, what] = GENERATE(table<std::string, std::string>({
      {"", "is no pipeline"},
      {"absent", "does not exist"},
      {"file", "is no directory"},
  }));
  scratch.write("file", "");
  const auto path = scratch.path() / name;

  CHECK_THAT(refusal(path), Contains("invalid_checkpoint: '" + path.string() + "' " + what +
                                     "; expected a directory with a model_index.json"));
}

TEST_CASE("a model_index.json of another form is refused with field and value",
          "[offload][pipeline_directory]") {
  const auto [content, expected] = GENERATE(table<std::string, std::string>({
      {"", "is not JSON; look at byte 1"},
      {"[1]", "is [1]; expected a JSON object"},
      {"{}", "has no string _class_name"},
      {R"({"_class_name":3})", "has no string _class_name"},
      {R"({"_class_name":"a","_class_name":"b"})", R"(contains the key "_class_name" twice)"},
      {R"({"_class_name":"P","vae":["a"]})",
       R"(has ["a"] under "vae"; expected the names of a library)"},
      {R"({"_class_name":"P","vae":["a",3]})",
       R"(has ["a",3] under "vae"; expected the names of a library)"},
      {R"({"_class_name":"P","vae":[null,"a"]})",
       R"(has [null,"a"] under "vae"; expected the names)"},
      {R"({"_class_name":"P","../vae":["a","b"]})", R"(has a component "../vae"; expected a name)"},
      {R"({"_class_name":"P","..":["a","b"]})", R"(has a component ".."; expected a name)"},
      {R"({"_class_name":"P","":["a","b"]})", R"(has a component ""; expected a name)"},
      {R"({"_class_name":"P","boundary_ratio":"x"})",
       R"(has "x" as boundary_ratio; expected a number from 0)"},
      {R"({"_class_name":"P","boundary_ratio":1.5})", "has 1.5 as boundary_ratio"},
      {R"({"_class_name":"P","boundary_ratio":-1})", "has -1 as boundary_ratio"},
  }));
  const test::scratch_directory scratch;
  scratch.write("model_index.json", content);

  CHECK_THAT(refusal(scratch.path()), Contains("model_index.json' " + expected));
}

TEST_CASE("a component that is declared but has no directory is refused",
          "[offload][pipeline_directory]") {
  const test::scratch_directory scratch;
  scratch.write("model_index.json",
                R"({"_class_name":"P","vae":["diffusers","AutoencoderKLWan"]})");

  CHECK_THAT(refusal(scratch.path()), Contains("/vae' is no directory; expected the component"));
}

} // namespace
} // namespace ferry
