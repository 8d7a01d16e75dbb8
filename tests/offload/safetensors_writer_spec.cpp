// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/safetensors.hpp>
#include <ferry/offload/safetensors_writer.hpp>

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <numeric>

namespace ferry {
namespace {

using Catch::Matchers::Contains;

std::vector<std::byte> counting_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::ranges::generate(bytes, [i = 0]() mutable { return static_cast<std::byte>(i++); });
  return bytes;
}

TEST_CASE("what was written is read back", "[offload][safetensors_writer]") {
  const test::scratch_directory scratch;
  const auto path = scratch.path() / "t.safetensors";
  const auto data = counting_bytes(24 + 2);

  safetensors_writer writer(path, {{"w", dtype::f32, {2, 3}}, {"s", dtype::bf16, {}}},
                            {{"steps", "4"}});
  writer.append(const_bytes(data).first(5));
  writer.append(const_bytes(data).subspan(5));
  writer.finish();

  const auto file = safetensors_file::open(path);
  REQUIRE(file);
  CHECK((*file)->metadata().at("steps") == "4");
  const auto* w = (*file)->find("w");
  const auto* s = (*file)->find("s");
  REQUIRE((w && s));
  CHECK(w->shape == std::vector<std::int64_t>{2, 3});
  CHECK(s->shape.empty());
  CHECK(std::ranges::equal(w->bytes, const_bytes(data).first(24)));
  CHECK(std::ranges::equal(s->bytes, const_bytes(data).last(2)));
}

TEST_CASE("every tensor of a written file is aligned, the first to 256 bytes",
          "[offload][safetensors_writer]") {
  const test::scratch_directory scratch;
  const auto path = scratch.path() / "t.safetensors";
  const auto name_length = GENERATE(range(1, 300, 23));

  safetensors_writer writer(
      path,
      {{std::string(static_cast<std::size_t>(name_length), 'n'), dtype::u8, {3}},
       {"half", dtype::f16, {5}},
       {"wide", dtype::f64, {1}}},
      {});
  CHECK(writer.tensors()[0].name == "wide");
  writer.append(counting_bytes(8 + 10 + 3));
  writer.finish();

  const auto file = safetensors_file::open(path);
  REQUIRE(file);
  CHECK(reinterpret_cast<std::uintptr_t>((*file)->find("wide")->bytes.data()) % 256 == 0);
  CHECK(std::ranges::all_of((*file)->tensors(), &stored_tensor::aligned));
}

TEST_CASE("a file that is not finished leaves nothing behind", "[offload][safetensors_writer]") {
  const test::scratch_directory scratch;
  {
    safetensors_writer writer(scratch.path() / "t.safetensors", {{"w", dtype::u8, {4}}}, {});
    writer.append(counting_bytes(2));
    CHECK_FALSE(std::filesystem::is_empty(scratch.path()));
  }

  CHECK(std::filesystem::is_empty(scratch.path()));
}

TEST_CASE("a file has its name only once it is finished", "[offload][safetensors_writer]") {
  const test::scratch_directory scratch;
  const auto path = scratch.write("t.safetensors", "old");

  safetensors_writer writer(path, {{"w", dtype::u8, {1}}}, {});
  writer.append(counting_bytes(1));
  CHECK(test::read_text(path) == "old");
  writer.finish();

  CHECK(safetensors_file::open(path));
}

TEST_CASE("a file that cannot be written is reported with its path",
          "[offload][safetensors_writer]") {
  const test::scratch_directory scratch;
  const auto path = scratch.path() / "absent" / "t.safetensors";

  CHECK_THROWS_WITH(safetensors_writer(path, {}, {}),
                    Contains("io_failure: cannot create '" + path.string()));
}

TEST_CASE("a disk that is full is reported", "[offload][safetensors_writer]") {
  const test::scratch_directory scratch;
  const auto path = scratch.path() / "t.safetensors";
  std::filesystem::create_symlink("/dev/full", path.string() + ".part");
  safetensors_writer writer(path, {{"w", dtype::u8, {8 << 20}}}, {});

  CHECK_THROWS_WITH(writer.append(counting_bytes(8 << 20)), Contains("cannot write"));
}

} // namespace
} // namespace ferry
