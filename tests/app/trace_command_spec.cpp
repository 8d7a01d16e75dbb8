// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/trace_writer.hpp>

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"
#include "timeline_page.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using nlohmann::json;
using test::read_text;
using test::run_program;

constexpr auto hostile = "</script><script>document.title='ran'</script><!--";

/// Two blocks. The first shows its copy of 3 ms, the second waits 2 ms behind that.
void write_trace(const std::filesystem::path& path, std::uint32_t rank = 0,
                 std::optional<nanoseconds> epoch = std::nullopt) {
  std::ofstream file(path);
  trace_writer writer(file, epoch);
  writer.add(trace_track{rank, 3, trace_row::stream, "compute"});
  writer.add(trace_track{rank, 4, trace_row::stream, "copy"});
  writer.name_block(0, "transformer.blocks.0");
  writer.name_block(1, hostile);
  const auto block = [&](std::uint32_t number, nanoseconds copied, nanoseconds asked,
                         nanoseconds begun, nanoseconds ended) {
    writer.add(device_span{.rank = rank,
                           .track = 4,
                           .what = "fetch",
                           .block = number,
                           .ticket = number + 1,
                           .bytes = 1000,
                           .start = copied,
                           .end = copied + 3ms});
    writer.add(block_span{.rank = rank,
                          .track = 3,
                          .block = number,
                          .ticket = number + 1,
                          .asked = asked,
                          .begun = begun,
                          .ended = ended});
  };
  block(0, 0ms, 0ms, 3ms, 4ms);
  block(1, 3ms, 4ms, 6ms, 7ms);
  writer.add(trace_mark{rank, 3, "step ended", 7ms});
  writer.finish();
}

struct written_trace {
  written_trace() { write_trace(path); }

  test::scratch_directory scratch;
  std::filesystem::path path = scratch.path() / "t.json";
};

auto lines_of(const std::string& text) {
  return std::ranges::count(text, '\n');
}

TEST_CASE("a name in a trace sends no control to the terminal, and turns no text around",
          "[app][trace]") {
  const test::scratch_directory scratch;
  const auto path = scratch.path() / "t.json";
  {
    std::ofstream file(path);
    trace_writer writer(file, std::nullopt);
    writer.name_block(0, "a\xc2\x9b\x33\x31mred\xe2\x80\xae\xe2\x81\xa6z\xc3\xa4");
    writer.add(
        block_span{.track = 3, .block = 0, .ticket = 1, .asked = 0ms, .begun = 2ms, .ended = 3ms});
    writer.finish();
  }

  CHECK_THAT(run_program({"trace", path.string()}).out, Contains("a?31mred??z\xc3\xa4 at"));
}

TEST_CASE("a trace is summed up, with the cause of its late blocks and what helps",
          "[app][trace]") {
  const written_trace given;

  const auto done = run_program({"trace", given.path});

  CHECK(done.code == 0);
  CHECK(done.err == "");
  CHECK_THAT(done.out, Contains("exposed wait          5.000 ms") &&
                           Contains("distance to the bound 16.7 %") && Contains("steps") &&
                           Contains("link busy             1 block, 2.000 ms") &&
                           Contains("resident: 2 more blocks") &&
                           Contains("the link was busy with 'transformer.blocks.0'"));
}

TEST_CASE("a trace is summed up as JSON", "[app][trace]") {
  const written_trace given;

  const auto done = run_program({"trace", given.path, "--json"});

  REQUIRE(done.code == 0);
  const auto told = json::parse(done.out);
  CHECK(told["complete"] == true);
  CHECK(told["blocks"] == 2);
  CHECK(told["exposed_wait_s"] == 0.005);
  CHECK(told["lower_bound_s"] == 0.006);
  CHECK(told["causes"]["link_busy"]["blocks"] == 1);
  CHECK(told["late"][1]["path"] == hostile);
  CHECK(told["late"][1]["by_block"] == 0);
  CHECK(told["late"][1]["wait_s"] == 0.002);
  CHECK(told["blocks_report"].size() == 2);
}

TEST_CASE("a trace that ends early is summed up, and says so", "[app][trace]") {
  const written_trace given;
  const auto text = read_text(given.path);
  const auto cut = given.scratch.write("cut.json", text.substr(0, text.size() / 2));

  const auto done = run_program({"trace", cut});

  CHECK(done.code == 0);
  CHECK_THAT(done.out, Contains("the trace ends before the run did"));
}

TEST_CASE("traces of several processes come together on one clock", "[app][trace]") {
  const test::scratch_directory scratch;
  write_trace(scratch.path() / "t.json", 0, 1'000'000'000ns);
  write_trace(scratch.path() / "t.rank1.json", 1, 1'002'000'000ns);

  const auto done =
      run_program({"trace", scratch.path() / "t.json", scratch.path() / "t.rank1.json", "--json"});

  REQUIRE(done.code == 0);
  const auto told = json::parse(done.out);
  CHECK(told["ranks_report"].size() == 2);
  REQUIRE(told["late"].size() == 4);
  CHECK(told["late"][3]["at_s"] == 0.006);
}

TEST_CASE("the summary of several ranks says whose late blocks it counts", "[app][trace]") {
  const test::scratch_directory scratch;
  const auto first = scratch.path() / "t.json";
  const auto second = scratch.path() / "t.rank1.json";
  write_trace(first, 0, 1'000'000'000ns);
  write_trace(second, 1, 1'002'000'000ns);

  const auto done = run_program({"trace", first, second});

  CHECK_THAT(done.out, StartsWith(first.string() + ", " + second.string() + "\n") &&
                           Contains("ranks                 2, figures of rank 0\n") &&
                           Contains("late blocks           2, of all ranks 4\n") &&
                           Contains("\nwhy blocks were late, all ranks\n") &&
                           Contains("\nlongest waits, all ranks\n"));
}

TEST_CASE("traces of different runs are not added up", "[app][trace]") {
  const test::scratch_directory scratch;
  const auto first = scratch.path() / "a.json";
  const auto second = scratch.path() / "b.json";
  const auto together = [&] { return run_program({"trace", first, second}); };

  write_trace(first, 0, 1'000'000'000ns);
  write_trace(second, 0, 1'002'000'000ns);
  const auto same_rank = together();
  write_trace(second, 1, 3'000'000'000ns);
  const auto later = together();
  write_trace(second, 1);
  const auto modelled = together();

  for (const auto& [done, why] : {std::pair(same_rank, "both have rank 0"),
                                  std::pair(later, "one had ended before the other began"),
                                  std::pair(modelled, "times are modelled")}) {
    CHECK(done.code == 2);
    CHECK(done.out == "");
    CHECK_THAT(done.err, Contains("b.json' is not of the run of '" + first.string() + "': " + why));
  }
}

TEST_CASE("times of the table and of the page begin with the run", "[app][trace]") {
  const test::scratch_directory scratch;
  std::ofstream file(scratch.path() / "t.json");
  trace_writer writer(file);
  writer.add(device_span{
      .track = 4, .what = "fetch", .ticket = 1, .bytes = 1000, .start = 100ms, .end = 103ms});
  writer.add(block_span{
      .track = 3, .block = 0, .ticket = 1, .asked = 102ms, .begun = 103ms, .ended = 104ms});
  writer.finish();
  file.close();
  const auto page = scratch.path() / "p.html";

  const auto done = run_program({"trace", scratch.path() / "t.json", "--html", page});

  CHECK_THAT(done.out, Contains("block 0 at 2.000 ms: "));
  CHECK_THAT(read_text(page), Contains(R"("at":2000000,)"));
}

TEST_CASE("what is no trace is rejected in one line", "[app][trace]") {
  const test::scratch_directory scratch;
  const auto [content, expected] = GENERATE(table<std::string, std::string>({
      {"hello", "is no trace of Ferry: it begins with \"h\""},
      {"", "ends before its first event"},
      {R"({"traceEvents":1})", "expected '['"},
      {R"([{"ph":"X","name":"a"}])", "does not begin with the event 'ferry_trace'"},
      {R"([{"ph":"M","name":"ferry_trace","args":{"format":9}}])", "format is 9; expected 1"},
  }));
  const auto file = scratch.write("t.json", content);

  const auto done = run_program({"trace", file});

  CHECK(done.code == 2);
  CHECK(done.out == "");
  CHECK(lines_of(done.err) == 1);
  CHECK_THAT(done.err, StartsWith("ferry: ") && Contains("t.json'") && Contains(expected));
}

TEST_CASE("a trace that is given twice, by whatever name, is rejected as that", "[app][trace]") {
  const written_trace given;
  const auto other = given.scratch.path() / "other.json";
  std::filesystem::create_hard_link(given.path, other);

  const auto done = run_program({"trace", given.path, other});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("other.json' is given twice"));
  CHECK(run_program({"trace", given.path, "--html", ""}).code == 2);
}

TEST_CASE("a trace that is not there is rejected", "[app][trace]") {
  const auto done = run_program({"trace", "/nowhere/t.json"});

  CHECK(done.code == 2);
  CHECK_THAT(done.err, Contains("'/nowhere/t.json' cannot be read: No such file"));
}

TEST_CASE("a page is written over a page, and over nothing else", "[app][trace]") {
  const written_trace given;
  const auto page = given.scratch.path() / "page.html";
  const auto notes = given.scratch.write("notes.txt", "mine");
  std::filesystem::create_hard_link(given.path, given.scratch.path() / "same.json");
  const auto before = read_text(given.path);
  const auto write_to = [&](const std::filesystem::path& where) {
    return run_program({"trace", given.path, "--html", where});
  };

  CHECK(write_to(page).code == 0);
  CHECK(write_to(page).code == 0);
  for (const auto& [where, why] : std::vector<std::pair<std::filesystem::path, std::string>>{
           {given.path, "which is the trace"},
           {given.scratch.path() / "same.json", "which is the trace"},
           {notes, "something else than a timeline page"},
           {given.scratch.path(), "no regular file"}}) {
    const auto done = write_to(where);
    CHECK(done.code == 2);
    CHECK_THAT(done.err, Contains("--html names '" + where.string()) && Contains(why));
  }
  CHECK(read_text(given.path) == before);
  CHECK(read_text(notes) == "mine");
}

TEST_CASE("a page that cannot be written fails with its name, behind the table", "[app][trace]") {
  const written_trace given;

  const auto done = run_program({"trace", given.path, "--html", "/nowhere/page.html"});

  CHECK(done.code == 1);
  CHECK_THAT(done.err,
             Contains("'/nowhere/page.html' could not be written: No such file or directory"));
  CHECK_THAT(done.out, Contains("exposed wait          5.000 ms"));
}

std::string page_of(const written_trace& given) {
  const auto page = given.scratch.path() / "page.html";
  REQUIRE(run_program({"trace", given.path, "--html", page}).code == 0);
  return read_text(page);
}

TEST_CASE("a page is one file that loads nothing", "[app][trace]") {
  const written_trace given;

  const auto page = page_of(given);

  CHECK_THAT(page, StartsWith(std::string(timeline_page_mark)));
  CHECK(page.find("{{") == std::string::npos);
  static const std::regex loads(R"re(https?:|//[a-z]|\ssrc=|\shref=|url\(|@import|import\()re");
  CHECK_FALSE(std::regex_search(page, loads));
  CHECK_THAT(page, Contains("default-src 'none'"));
}

TEST_CASE("a page has the run's spans, and no name in it becomes markup", "[app][trace]") {
  const written_trace given;

  const auto page = page_of(given);

  const std::string open = R"(<script type="application/json" id="data">)";
  const auto begin = page.find(open) + open.size();
  const auto text = page.substr(begin, page.find("</script>", begin) - begin);
  CHECK(text.find('<') == std::string::npos);
  const auto data = json::parse(text);
  CHECK(data["spans"]["start"] == json({0, 0, 3'000'000, 3'000'000, 4'000'000, 6'000'000}));
  CHECK(data["blocks"]["1"] == hostile);
  CHECK(data["view"] == json({0, 7'000'000}));
  REQUIRE(data["late"].size() == 2);
  CHECK(data["spans"]["kind"][data["late"][0]["span"].get<std::size_t>()] == 5);
}

TEST_CASE("a page begins with where blocks ran, not with what was before and after",
          "[app][trace]") {
  trace run;
  run.messages.push_back({.started = 0s, .finished = 1s});
  run.uses.push_back({.asked = 10s, .begun = 10s, .ended = 11s});
  run.messages.push_back({.started = 99s, .finished = 100s});

  CHECK_THAT(timeline_page(run, {}, ""), Contains(R"("view":[9980000000,11020000000])"));
}

TEST_CASE("the title of a page is no markup either", "[app][trace]") {
  const auto page = timeline_page({}, {}, "<b>&\"\xff");

  CHECK_THAT(page, Contains("<title>&lt;b&gt;&amp;&quot;\xef\xbf\xbd</title>"));
}

std::string chromium() {
  for (const auto* each : {"/usr/bin/chromium", "/usr/bin/chromium-browser"})
    if (std::filesystem::exists(each))
      return each;
  return {};
}

// Registered by hand, so that it shows as skipped where there is no browser.
TEST_CASE("a browser shows the lanes and the late blocks of a page", "[.browser]") {
  const auto browser = chromium();
  if (browser.empty()) {
    WARN("skipped: no chromium");
    return;
  }
  const written_trace given;
  static_cast<void>(page_of(given));

  const auto shown =
      test::run({browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=500,800",
                 "--user-data-dir=" + (given.scratch.path() / "profile").string(),
                 "--virtual-time-budget=5000", "--dump-dom",
                 "file://" + (given.scratch.path() / "page.html").string()});

  CHECK_THAT(shown.out, Contains(R"(data-lanes="compute, copy")"));
  CHECK_THAT(shown.out, Contains(R"(data-spans="6")"));
  CHECK_THAT(shown.out, Contains(R"(data-view="0 to 7000000")"));
  CHECK_THAT(shown.out, Contains(R"(data-cut="0")"));
  CHECK_THAT(shown.out, Contains("&lt;/script&gt;&lt;script&gt;document.title='ran'"));
  CHECK_THAT(shown.out, Contains("waited 2.000 ms") && Contains("link busy"));
  CHECK(shown.out.find("<title>ran</title>") == std::string::npos);
}

} // namespace
} // namespace ferry
