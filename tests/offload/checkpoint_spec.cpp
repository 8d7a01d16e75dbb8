// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/checkpoint.hpp>

#include "support/catch.hpp"
#include "support/safetensors_bytes.hpp"
#include "support/scratch_directory.hpp"

#include <string>

namespace ferry {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

/// A file with one byte for each of the names given.
std::string shard(std::initializer_list<std::string> names) {
  std::string header;
  std::size_t end = 0;
  for (const auto& name : names) {
    header += (header.empty() ? "{\"" : ",\"") + name +
              R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(end) + "," +
              std::to_string(end + 1) + "]}";
    ++end;
  }
  return test::safetensors_bytes(header + "}", end);
}

std::string refusal(const fs::path& directory) {
  const auto checkpoint = component_checkpoint::open(directory);
  return checkpoint ? "accepted" : describe(checkpoint.error());
}

/// A component of two shards and an index, which a test damages.
struct sharded_component {
  test::scratch_directory scratch;
  fs::path directory = scratch.path() / "transformer";

  sharded_component() {
    write("one.safetensors", shard({"a", "b"}));
    write("two.safetensors", shard({"c"}));
    write_index(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})");
  }

  void write(const std::string& name, const std::string& content) const {
    scratch.write("transformer/" + name, content);
  }

  void write_index(const std::string& weight_map) const {
    write("model.safetensors.index.json",
          R"({"metadata":{"total_size":3},"weight_map":)" + weight_map + "}");
  }
};

TEST_CASE("a component of one file gives its tensors", "[offload][checkpoint]") {
  const auto name =
      GENERATE(as<std::string>(), "model.safetensors", "diffusion_pytorch_model.safetensors");
  const test::scratch_directory scratch;
  scratch.write(name, shard({"b", "a"}));

  const auto checkpoint = component_checkpoint::open(scratch.path());

  REQUIRE(checkpoint);
  REQUIRE((*checkpoint)->tensors().size() == 2);
  CHECK((*checkpoint)->tensors()[0]->name == "a");
  CHECK((*checkpoint)->find("b"));
  CHECK_FALSE((*checkpoint)->find("c"));
  CHECK((*checkpoint)->total_bytes() == 2);
}

TEST_CASE("a sharded component gives the tensors of all its files", "[offload][checkpoint]") {
  const sharded_component component;

  const auto checkpoint = component_checkpoint::open(component.directory);

  REQUIRE(checkpoint);
  CHECK((*checkpoint)->tensors().size() == 3);
  CHECK((*checkpoint)->files().size() == 2);
  CHECK((*checkpoint)->find("c")->bytes[0] == std::byte{'d'});
}

TEST_CASE("shards that diffusers writes are read", "[offload][checkpoint]") {
  const auto checkpoint = component_checkpoint::open(FERRY_TEST_DATA "/wan-tiny/transformer");

  REQUIRE(checkpoint);
  CHECK((*checkpoint)->files().size() == 11);
  CHECK((*checkpoint)->total_bytes() == 961408);
  CHECK((*checkpoint)->find("blocks.6.ffn.net.2.weight")->shape ==
        std::vector<std::int64_t>{48, 96});
}

TEST_CASE("bytes of a tensor outlive the checkpoint's directory", "[offload][checkpoint]") {
  const sharded_component component;
  const auto checkpoint = component_checkpoint::open(component.directory);
  REQUIRE(checkpoint);

  fs::remove_all(component.directory);

  CHECK((*checkpoint)->find("a")->bytes[0] == std::byte{'d'});
}

TEST_CASE("a directory without weights is refused with the names looked for",
          "[offload][checkpoint]") {
  const test::scratch_directory scratch;
  scratch.write("model.fp16.safetensors", shard({"a"}));

  CHECK_THAT(refusal(scratch.path()),
             Contains("holds no weights; expected one of") && Contains("model.safetensors"));
  CHECK_THAT(refusal(scratch.path() / "absent"), Contains("is no directory"));
  CHECK_THAT(refusal(scratch.path() / "model.fp16.safetensors"), Contains("is no directory"));
}

TEST_CASE("a directory with two sets of weights is refused", "[offload][checkpoint]") {
  const sharded_component component;
  component.write("model.safetensors", shard({"a"}));

  CHECK_THAT(refusal(component.directory), Contains("remove the stale one"));
}

TEST_CASE("an index may only name files of its own directory", "[offload][checkpoint]") {
  const sharded_component component;
  component.scratch.write("outside.safetensors", shard({"a"}));
  const auto file = GENERATE(as<std::string>(), R"("../outside.safetensors")", R"("/etc/passwd")",
                             R"("sub/one.safetensors")", R"("..")", R"("")", R"("a\\b")",
                             R"("one.safetensors\u0000")", "3", "null", R"(["one.safetensors"])");
  component.write_index(R"({"a":)" + file + "}");

  CHECK_THAT(refusal(component.directory),
             Contains("model.safetensors.index.json") &&
                 Contains("as the file of tensor \"a\"; expected the name of a file in the same"));
}

TEST_CASE("an index that is no index is refused", "[offload][checkpoint]") {
  const sharded_component component;
  const auto [content, expected] = GENERATE(table<std::string, std::string>({
      {"", "is not JSON; look at byte 1"},
      {"{", "is not JSON; look at byte"},
      {"[]", "is []; expected a JSON object"},
      {"{}", "has no object weight_map"},
      {R"({"weight_map":[]})", "has no object weight_map"},
      {R"({"weight_map":{"a":"one.safetensors","a":"one.safetensors"}})",
       R"(contains the key "a" twice)"},
      {R"({"x":)" + std::string(100000, '['), "is nested deeper than 16 levels"},
  }));
  component.write("model.safetensors.index.json", content);

  CHECK_THAT(refusal(component.directory), Contains("model.safetensors.index.json' " + expected));
}

TEST_CASE("a missing shard is refused with its name and the index", "[offload][checkpoint]") {
  const sharded_component component;
  fs::remove(component.directory / "two.safetensors");

  CHECK_THAT(refusal(component.directory),
             Contains("two.safetensors' cannot be opened") && Contains("index.json"));
}

TEST_CASE("a shard that is damaged is refused with its name and the index",
          "[offload][checkpoint]") {
  const sharded_component component;
  component.write("two.safetensors", "short");

  CHECK_THAT(refusal(component.directory),
             Contains("two.safetensors': the file has 5 bytes") && Contains("index.json"));
}

TEST_CASE("a tensor that is not in its file is refused with both names", "[offload][checkpoint]") {
  const sharded_component component;
  component.write_index(R"({"a":"one.safetensors","z":"one.safetensors","c":"two.safetensors"})");

  CHECK_THAT(refusal(component.directory), Contains("one.safetensors' has no tensor \"z\""));
}

TEST_CASE("a tensor in two shards is refused", "[offload][checkpoint]") {
  const sharded_component component;
  component.write("two.safetensors", shard({"c", "a"}));

  CHECK_THAT(refusal(component.directory), Contains("names two files that hold tensor \"a\""));
}

TEST_CASE("a link out of the directory is refused", "[offload][checkpoint]") {
  const sharded_component component;
  const auto outside = component.scratch.write("outside.safetensors", shard({"c"}));
  fs::remove(component.directory / "two.safetensors");
  fs::create_symlink(outside, component.directory / "two.safetensors");

  CHECK_THAT(refusal(component.directory),
             Contains("is a link to") && Contains("outside.safetensors', which is outside"));
}

TEST_CASE("a link that leads to itself is refused", "[offload][checkpoint]") {
  const sharded_component component;
  fs::remove(component.directory / "two.safetensors");
  fs::create_symlink("two.safetensors", component.directory / "two.safetensors");

  CHECK_THAT(refusal(component.directory), Contains("two.safetensors' cannot be opened"));
}

TEST_CASE("links from a snapshot of the Hugging Face cache to its blobs are followed",
          "[offload][checkpoint]") {
  const test::scratch_directory scratch;
  scratch.write("models--org--name/blobs/0f3a", shard({"a"}));
  const auto component = scratch.path() / "models--org--name/snapshots/91d2/transformer";
  fs::create_directories(component);
  fs::create_symlink("../../../blobs/0f3a", component / "model.safetensors");

  CHECK(component_checkpoint::open(component));
}

TEST_CASE("a link to the blobs of another cache entry is refused", "[offload][checkpoint]") {
  const test::scratch_directory scratch;
  const auto blob = scratch.write("models--org--other/blobs/0f3a", shard({"a"}));
  const auto component = scratch.path() / "models--org--name/snapshots/91d2/transformer";
  fs::create_directories(component);
  fs::create_symlink(blob, component / "model.safetensors");

  CHECK_THAT(refusal(component), Contains("which is outside"));
}

} // namespace
} // namespace ferry
