// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "request_file.hpp"

#include "models/load_model.hpp"
#include "support/scratch_directory.hpp"
#include "torch/catch.hpp"

#include <filesystem>
#include <string>

namespace ferry {
namespace {

using Catch::Matchers::Contains;

const diffusion_model& tiny_model() {
  static const auto model = load_model(std::filesystem::path(FERRY_TEST_DATA) / "wan-tiny").value();
  return *model;
}

result<std::vector<asked_request>> read(const std::string& text) {
  const test::scratch_directory scratch;
  return read_requests(scratch.write("r.jsonl", text), tiny_model());
}

TEST_CASE("a line of a request file says what is asked for", "[app][request_file]") {
  const auto all =
      read(R"({"prompt_ids":[7,8],"negative_prompt_ids":[2],"seed":18446744073709551615,)"
           R"("steps":3,"guidance":2,"size":"32x48","frames":5})"
           "\n{}\r\n");

  REQUIRE(all);
  REQUIRE(all->size() == 2);
  const auto& first = all->front().what;
  CHECK(first.positive.ids == std::vector<std::int64_t>{7, 8});
  CHECK(first.negative.ids == std::vector<std::int64_t>{2});
  CHECK(first.seed == 18446744073709551615U);
  CHECK(first.steps == 3);
  CHECK(first.guidance == 2);
  CHECK(first.width == 32);
  CHECK(first.height == 48);
  CHECK(first.frames == 5);
  CHECK_THAT(all->front().origin, Catch::EndsWith("r.jsonl:1"));
  CHECK(all->back().what.positive.ids == tiny_model().defaults().positive.ids);
  CHECK(all->back().what.steps == tiny_model().defaults().steps);
}

TEST_CASE("a request file is refused by line, member, value and limit", "[app][request_file]") {
  const auto [line, expected] = GENERATE(table<std::string, std::string>({
      {"", "is not JSON; look at byte 1"},
      {"{", "is not JSON; look at byte 2"},
      {"{} {}", "is not JSON"},
      {R"({"guidance":NaN})", "is not JSON; look at byte 13"},
      {"[]", "is a list; expected a JSON object"},
      {"5", "is 5; expected a JSON object"},
      {R"({"nonsense":1})", R"(contains "nonsense"; expected only prompt_ids, second_prom)"},
      {R"({"Steps":1})", R"(contains "Steps")"},
      {R"({"steps":1,"steps":1})", "contains steps twice"},
      {R"({"steps":0})", "steps is 0; expected an integer from 1 to 1000"},
      {R"({"steps":1000000000})", "steps is 1000000000; expected an integer from 1 to 1000"},
      {R"({"steps":18446744073709551615})", "steps is 18446744073709551615; expected an integer"},
      {R"({"steps":2.0})", "steps is 2.0; expected an integer from 1 to 1000"},
      {R"({"steps":null})", "steps is null; expected an integer"},
      {R"({"steps":{}})", "steps is an object; expected an integer"},
      {R"({"steps":[2]})", "steps is a list; expected an integer"},
      {R"({"steps":true})", "steps is true; expected an integer"},
      {R"({"seed":-1})", "seed is -1; expected an integer from 0 to 18446744073709551615"},
      {R"({"seed":18446744073709551616})", "seed is 18446744073709551616; expected an integer"},
      {R"({"guidance":"a lot"})", R"(guidance is "a lot"; expected a finite number)"},
      {R"({"guidance":1e999})", "guidance is 1e999; expected a finite number"},
      {R"({"guidance":-1})", "guidance is -1; expected a number from 0 to 3.40282e+38"},
      {R"({"size":"7x3"})", "the width of size 7x3 is 7; expected a multiple of 16"},
      {R"({"size":"96"})", R"(size is "96"; expected a text of width and height)"},
      {R"({"size":96})", "size is 96; expected a text of width and height"},
      {R"({"frames":2})", "frames is 2; expected 4k+1"},
      {R"({"prompt_ids":[]})", "prompt_ids is []; expected a list of token ids, at least one"},
      {R"({"negative_prompt_ids":[],"guidance":1})", "negative_prompt_ids is []"},
      {R"({"prompt_ids":5})", "prompt_ids is 5; expected a list of token ids"},
      {R"({"prompt_ids":[5,"x"]})", R"(prompt_ids[1] is "x"; expected an integer)"},
      {R"({"prompt_ids":[[5]]})", "prompt_ids[0] is a list; expected an integer"},
      {R"({"prompt_ids":[5,{}]})", "prompt_ids[1] is an object; expected an integer"},
      {R"({"prompt_ids":[5,999999]})", "prompt_ids[1] is 999999; expected an integer from 0 to"},
      {R"({"prompt_ids":[5,1e999]})", "prompt_ids[1] is 1e999; expected an integer"},
  }));

  const auto all = read("{}\n" + line + "\n{}\n");

  REQUIRE(!all);
  CHECK(all.error().code == errc::invalid_argument);
  CHECK_THAT(all.error().detail, Contains("r.jsonl:2: " + expected));
}

TEST_CASE("a value that is refused is shown up to a length", "[app][request_file]") {
  const auto all = read(R"({"size":")" + std::string(100'000, 'x') + R"("})");

  REQUIRE(!all);
  CHECK(all.error().detail.size() < 400);
}

TEST_CASE("a line of hostile depth or length is refused", "[app][request_file]") {
  CHECK_FALSE(read(std::string(1'000'000, '[')));
  CHECK_THAT(read(R"({"prompt_ids":)" + std::string(2'000'000, ' ') + "[5]}").error().detail,
             Contains("expected at most 1048576"));
}

TEST_CASE("a request file that says nothing is refused", "[app][request_file]") {
  const test::scratch_directory scratch;

  CHECK_THAT(read("").error().detail, Contains("r.jsonl' is empty"));
  CHECK_THAT(read_requests("/no/such/file", tiny_model()).error().detail,
             Contains("--requests names '/no/such/file'"));
  CHECK(read_requests(scratch.path(), tiny_model()).error().code == errc::not_found);
}

} // namespace
} // namespace ferry
