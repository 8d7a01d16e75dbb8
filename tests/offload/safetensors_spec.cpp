// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/safetensors.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "support/catch.hpp"
#include "support/safetensors_bytes.hpp"
#include "support/scratch_directory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace ferry {
namespace {

using Catch::Matchers::Contains;
using test::header_length;
using test::safetensors_bytes;

static_assert(!std::is_copy_constructible_v<safetensors_file>);

result<safetensors_contents> read(const std::string& file) {
  return read_safetensors(std::as_bytes(std::span(file)), "model.safetensors");
}

std::string refusal(const std::string& file) {
  const auto contents = read(file);
  return contents ? "accepted" : describe(contents.error());
}

TEST_CASE("a sound file gives its tensors by name, with dtype, shape and bytes",
          "[offload][safetensors]") {
  const auto file = safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
      R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
      R"("s":{"dtype":"U8","shape":[],"data_offsets":[28,29]},)"
      R"("none":{"dtype":"I64","shape":[0,4],"data_offsets":[4,4]}}  )",
      29);

  const auto contents = read(file);

  REQUIRE(contents);
  REQUIRE(contents->tensors.size() == 4);
  CHECK(contents->metadata.at("format") == "pt");
  const auto& w = contents->tensors[3];
  CHECK(w.name == "w");
  CHECK(w.type == dtype::f32);
  CHECK(w.shape == std::vector<std::int64_t>{2, 3});
  CHECK(w.bytes.size() == 24);
  CHECK(reinterpret_cast<const char*>(w.bytes.data()) == file.data() + file.size() - 25);
  CHECK(contents->tensors[1].bytes.empty());
}

TEST_CASE("a file without tensors is sound", "[offload][safetensors]") {
  CHECK(read(safetensors_bytes("{}", 0)));
}

TEST_CASE("a tensor between two elements' boundaries says that it is not aligned",
          "[offload][safetensors]") {
  auto file = safetensors_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                R"("b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})",
                                9);
  const auto contents = read(file);

  REQUIRE(contents);
  const auto at = reinterpret_cast<std::uintptr_t>(contents->tensors[1].bytes.data());
  CHECK(contents->tensors[0].aligned());
  CHECK(contents->tensors[1].aligned() == (at % 8 == 0));
}

TEST_CASE("a file that ends before its header does is refused", "[offload][safetensors]") {
  const auto sound = safetensors_bytes("{}", 0);
  const auto [file, expected] = GENERATE_COPY(table<std::string, std::string>({
      {"", "the file has 0 bytes; expected at least 8, which hold the length of the header; the "
           "file is cut off, fetch it again"},
      {sound.substr(0, 7), "the file has 7 bytes; expected at least 8"},
      {sound.substr(0, 9),
       "the header has 2 bytes; expected at most 1; the file is cut off, fetch it again"},
      {header_length(1000) + "{}",
       "the header has 1000 bytes; expected at most 2; the file is cut"},
      {header_length(std::size_t{1} << 63) + "{}", "the header has 9223372036854775808 bytes"},
      {header_length(~std::size_t{0}) + "{}", "the header has 18446744073709551615 bytes"},
  }));

  CHECK_THAT(refusal(file), Contains("invalid_checkpoint: 'model.safetensors': " + expected));
}

TEST_CASE("a header of another form is refused with the place and the expectation",
          "[offload][safetensors]") {
  const auto [header, expected] = GENERATE(table<std::string, std::string>({
      {"", "the header is no JSON object"},
      {"[]", "the header is no JSON object"},
      {" {}", "the header is no JSON object"},
      {"\xef\xbb\xbf{}", "the header is no JSON object"},
      {std::string("{}\0{", 4), "the header is no JSON object"},
      {"{xxxxxxxx", "the header is no valid JSON at byte 2"},
      {"{", "the header is no valid JSON at byte"},
      {"{}{", "the header is no valid JSON at byte 3"},
      {"{\"\xff\":{}}", "the header is no valid JSON at byte"},
      {R"({"a":1})", R"(the header has 1 under "a"; expected an object)"},
      {R"({"a":null})", R"(the header has null under "a"; expected an object)"},
      {R"({"a":{}})", R"(tensor "a" has no dtype)"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", R"(tensor "a" has no data_offsets)"},
      {R"({"a":{"dtype":"F32","shape":[1],"strides":[1]}})",
       R"(tensor "a" has the field "strides")"},
      {R"({"a":{"dtype":"Q7"}})", R"(tensor "a" has dtype "Q7"; expected one of BOOL)"},
      {R"({"a":{"dtype":7}})", R"(tensor "a" has 7 as its dtype; expected a string)"},
      {R"({"a":{"dtype":["F32"]}})", R"(tensor "a" has an array as its dtype)"},
      {R"({"a":{"shape":4}})", R"(tensor "a" has 4 as its shape; expected an array)"},
      {R"({"a":{"shape":[-1,4]}})", R"(tensor "a" has -1 in its shape; expected integers >= 0)"},
      {R"({"a":{"shape":[1.5]}})", R"(tensor "a" has 1.5 in its shape)"},
      {R"({"a":{"shape":[1e2]}})", R"(tensor "a" has 1e2 in its shape)"},
      {R"({"a":{"shape":[true]}})", R"(tensor "a" has true in its shape)"},
      {R"({"a":{"shape":[[1]]}})", R"(tensor "a" has an array in its shape)"},
      {R"({"a":{"shape":[{}]}})", R"(tensor "a" has an object in its shape)"},
      {R"({"a":{"shape":[9223372036854775808]}})",
       R"(tensor "a" has the dimension 9223372036854775808)"},
      {R"({"a":{"shape":[18446744073709551616]}})",
       R"(tensor "a" has 18446744073709551616 in its shape)"},
      {R"({"a":{"data_offsets":["a","b"]}})", R"(tensor "a" has "a" in its data_offsets)"},
      {R"({"a":{"data_offsets":[-4,4]}})", R"(tensor "a" has -4 in its data_offsets)"},
      {R"({"a":{"data_offsets":[4]}})", R"(tensor "a" has one or no data offset; expected two)"},
      {R"({"a":{"data_offsets":[0,4,8]}})", R"(tensor "a" has more than two data offsets)"},
      {R"({"a":{"dtype":"F32","dtype":"F32"}})", R"(tensor "a" has the key "dtype" twice)"},
      {R"({"__metadata__":[]})",
       R"(the header has an array under "__metadata__"; expected an object)"},
      {R"({"__metadata__":{"steps":4}})", R"(__metadata__ has 4 under "steps"; expected a string)"},
      {R"({"__metadata__":{"a":{}}})", R"(__metadata__ has an object under "a")"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", R"(__metadata__ has the key "a" twice)"},
  }));

  CHECK_THAT(refusal(safetensors_bytes(header, 0)), Contains("'model.safetensors': " + expected));
}

TEST_CASE("a name that comes twice is refused", "[offload][safetensors]") {
  const std::string tensor = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";

  CHECK_THAT(refusal(safetensors_bytes("{" + tensor + "," + tensor + "}", 1)),
             Contains(R"(the header names "a" twice)"));
}

TEST_CASE("a header nested a hundred thousand deep is refused and does not exhaust the stack",
          "[offload][safetensors]") {
  const auto opening =
      GENERATE(as<std::string>(), R"({"a":)", R"({"a":{"shape":)", R"({"__metadata__":{"a":)");
  const auto unit = GENERATE(as<std::string>(), "[", R"({"a":)");
  std::string header = opening;
  for (int i = 0; i < 100000; ++i)
    header += unit;

  CHECK_THAT(refusal(safetensors_bytes(header, 0)), Contains("invalid_checkpoint"));
}

TEST_CASE("a tensor of more than 64 dimensions is refused", "[offload][safetensors]") {
  std::string shape = "1";
  for (int i = 0; i < 64; ++i)
    shape += ",1";

  CHECK_THAT(refusal(safetensors_bytes(R"({"a":{"shape":[)" + shape + "]}}", 0)),
             Contains(R"(tensor "a" has more than 64 dimensions)"));
}

TEST_CASE("offsets that contradict the shape, the file or each other are refused",
          "[offload][safetensors]") {
  const auto [fields, expected] = GENERATE(table<std::string, std::string>({
      {R"("F32","shape":[1],"data_offsets":[8,4])", "[8, 4); expected the first to be the lesser"},
      {R"("F32","shape":[3],"data_offsets":[0,12])",
       "[0, 12); expected at most 8, the bytes of data"},
      {R"("F32","shape":[1],"data_offsets":[0,18446744073709551615])", "expected at most 8"},
      {R"("F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615])",
       "expected at most 8"},
      {R"("F32","shape":[1],"data_offsets":[0,8])", "[0, 8); expected 4 bytes for F32 [1]"},
      {R"("BF16","shape":[2,2],"data_offsets":[0,4])", "expected 8 bytes for BF16 [2, 2]"},
      {R"("F32","shape":[1099511627776,1099511627776],"data_offsets":[0,8])",
       "has shape [1099511627776, 1099511627776]; expected less than 2^63 bytes"},
      {R"("U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])", "expected less than 2^63"},
      {R"("F32","shape":[1],"data_offsets":[4,8])",
       "expected 0 as the first, so that there is no hole"},
  }));

  CHECK_THAT(refusal(safetensors_bytes(R"({"a":{"dtype":)" + fields + "}}", 8)),
             Contains(R"(tensor "a" has )") && Contains(expected));
}

TEST_CASE("a file that ends before its data does is said to be cut off, and no other",
          "[offload][safetensors]") {
  const auto tensor =
      GENERATE(as<std::string>(), R"("shape":[3],"data_offsets":[0,12])",
               R"("shape":[3],"data_offsets":[0,16])", R"("shape":[1],"data_offsets":[12,8])");

  const auto message = refusal(safetensors_bytes(R"({"a":{"dtype":"F32",)" + tensor + "}}", 8));

  const auto sound = tensor.find("[0,12]") != std::string::npos;
  CHECK((message.find("; the file is cut off, fetch it again") != std::string::npos) == sound);
}

TEST_CASE("data that no tensor covers is refused", "[offload][safetensors]") {
  CHECK_THAT(
      refusal(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 9)),
      Contains("the tensors take 4 bytes; expected 9"));
}

TEST_CASE("tensors that overlap are refused by both names", "[offload][safetensors]") {
  const auto second = GENERATE(as<std::string>(), "2,6", "0,4", "1,5");
  const auto header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"U8","shape":[4],"data_offsets":[)" +
                      second + "]}}";

  CHECK_THAT(refusal(safetensors_bytes(header, 6)),
             Contains("which overlap those of \"a\"") || Contains("which overlap those of \"b\""));
}

TEST_CASE("a hostile name stays on one short line of the message", "[offload][safetensors]") {
  const auto header = R"({"\n\u001b[31m)" + std::string(5000, 'n') + R"(":7})";

  const auto message = refusal(safetensors_bytes(header, 0));

  CHECK_THAT(message, Contains(R"(\n\u001b[31m)"));
  CHECK(message.size() < 300);
  CHECK(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }));
}

TEST_CASE("an opened file keeps the bytes of its tensors readable", "[offload][safetensors]") {
  const test::scratch_directory scratch;
  const auto path = scratch.write(
      "t.safetensors",
      safetensors_bytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2));

  const auto file = safetensors_file::open(path);
  std::filesystem::remove(path);

  REQUIRE(file);
  REQUIRE((*file)->find("a"));
  CHECK((*file)->find("a")->bytes[1] == std::byte{'d'});
  CHECK_FALSE((*file)->find("b"));
  CHECK((*file)->path() == path);
}

TEST_CASE("a number that is too large for a narrower type is told with its tensor",
          "[offload][safetensors]") {
  const test::scratch_directory scratch;
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b.c":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
  const std::array<float, 3> numbers{1.0F, 2.0F, std::numeric_limits<float>::max()};
  auto text = safetensors_bytes(header, 0);
  text.append(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
  const auto file = safetensors_file::open(scratch.write("big.safetensors", text));
  REQUIRE(file);
  const auto narrowed = [&](const char* name) {
    const auto from = (*file)->find(name)->bytes;
    std::vector<std::byte> to(from.size() / 2);
    read_mapped(from, to, conversion::f32_to_bf16);
  };

  CHECK_NOTHROW(narrowed("a"));
  CHECK_THROWS_WITH(narrowed("b.c"), Contains("' has a number in tensor \"b.c\" (byte ") &&
                                         Contains("too large to go from f32 to bf16"));
}

TEST_CASE("what is no regular file is refused without waiting for it", "[offload][safetensors]") {
  const test::scratch_directory scratch;
  REQUIRE(::mkfifo((scratch.path() / "pipe").c_str(), 0600) == 0);
  const auto path = scratch.path() / GENERATE(as<std::string>(), "pipe", ".", "absent");

  const auto file = safetensors_file::open(path);

  REQUIRE_FALSE(file);
  CHECK(file.error().code == errc::invalid_checkpoint);
  CHECK_THAT(file.error().detail, Contains(path.string()));
}

TEST_CASE("files that diffusers and transformers write are read", "[offload][safetensors]") {
  const auto file =
      safetensors_file::open(FERRY_TEST_DATA "/wan-tiny/text_encoder/model.safetensors");

  REQUIRE(file);
  CHECK((*file)->tensors().size() == 52);
  CHECK((*file)->metadata().at("format") == "pt");
  const auto* shared = (*file)->find("shared.weight");
  REQUIRE(shared);
  CHECK(shared->shape == std::vector<std::int64_t>{256, 32});
  CHECK(shared->aligned());
}

} // namespace
} // namespace ferry
