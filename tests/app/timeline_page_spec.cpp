// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/trace_writer.hpp>

#include "run_program.hpp"
#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace ferry {
namespace {

// In a browser, if there is one: docs/testing.md. Registered by hand, so that each shows as skipped
// where there is none.

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using test::read_text;
using test::run_program;

std::string chromium() {
  for (const auto* each : {"/usr/bin/chromium", "/usr/bin/chromium-browser"})
    if (std::filesystem::exists(each))
      return each;
  return {};
}

/// Returns whether the test is to be left out.
bool lacks_browser() {
  if (!chromium().empty())
    return false;
  WARN("skipped: no chromium");
  return true;
}

/// A trace in the making, of one rank.
class written_trace {
public:
  written_trace() {
    writer_.add(trace_track{0, 3, trace_row::stream, "compute"});
    writer_.add(trace_track{0, 4, trace_row::stream, "copy"});
  }

  void name(std::uint32_t block, const std::string& path) { writer_.name_block(block, path); }
  void track(std::uint32_t id, const std::string& name) {
    writer_.add(trace_track{0, id, trace_row::stream, name});
  }
  void copy(std::uint32_t block, std::uint64_t ticket, nanoseconds start, nanoseconds end,
            std::uint32_t on = 4) {
    writer_.add(device_span{.track = on,
                            .what = "fetch",
                            .block = block,
                            .ticket = ticket,
                            .bytes = 1000,
                            .enqueued = start,
                            .start = start,
                            .end = end});
  }
  void use(std::uint32_t block, std::uint64_t ticket, nanoseconds asked, nanoseconds begun,
           nanoseconds ended) {
    writer_.add(block_span{.track = 3,
                           .block = block,
                           .ticket = ticket,
                           .asked = asked,
                           .begun = begun,
                           .ended = ended});
  }

  /// Returns what a browser makes of its page after `group` of the checks.
  std::string after(const std::string& group, const std::vector<std::string>& options = {}) {
    writer_.finish();
    file_.close();
    const auto page = scratch_.path() / "page.html";
    REQUIRE(run_program({"trace", path_, "--html", page}).code == 0);
    auto text = read_text(page);
    const auto put = [&](const std::string& before, const std::string& script) {
      text.insert(text.find(before), "<script>" + script + "</script>");
    };
    put("</body>", read_text(FERRY_TIMELINE_CHECKS));
    // Nobody changes the scheme of a browser without a window.
    put("<style>",
        "matchMedia = () => ({addEventListener: (_, told) => { scheme_changed = told; }});");
    std::ofstream(page) << text;
    std::vector<std::string> all{chromium(),
                                 "--headless",
                                 "--no-sandbox",
                                 "--disable-gpu",
                                 "--window-size=900,500",
                                 "--user-data-dir=" + (scratch_.path() / "profile").string()};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--dump-dom", "file://" + page.string() + "#" + group});
    return test::run(all).out;
  }

private:
  test::scratch_directory scratch_;
  std::filesystem::path path_ = scratch_.path() / "t.json";
  std::ofstream file_{path_};
  trace_writer writer_{file_, std::nullopt};
};

/// Two blocks. The first shows its copy of 3 ms, the second waits 2 ms behind that.
void write_two_late_blocks(written_trace& to) {
  to.name(0, "transformer.blocks.0");
  to.name(1, "transformer.blocks.1");
  to.copy(0, 1, 0ms, 3ms);
  to.use(0, 1, 0ms, 3ms, 4ms);
  to.copy(1, 2, 3ms, 6ms);
  to.use(1, 2, 4ms, 6ms, 7ms);
}

/// Returns the part of a document that says what did not hold.
std::string verdict(const std::string& document) {
  const auto head = document.find("<html");
  return document.substr(head, document.find('>', head) - head);
}

void check_group(const std::string& group, const std::string& checked) {
  written_trace given;
  write_two_late_blocks(given);

  const auto said = verdict(given.after(group));

  CHECK_THAT(said, Contains("data-failed=\"\""));
  CHECK_THAT(said, Contains("data-checked=\"" + checked + "\""));
}

TEST_CASE("wheel, mouse and fingers move and zoom the timeline where the pointer is",
          "[.browser]") {
  if (!lacks_browser())
    check_group("pointer", "11");
}

TEST_CASE("keys and buttons move and zoom the timeline and go to late blocks", "[.browser]") {
  if (!lacks_browser())
    check_group("keys", "18");
}

TEST_CASE("hovering shows the facts of a span, and a click keeps them", "[.browser]") {
  if (!lacks_browser())
    check_group("hover", "9");
}

TEST_CASE("a click on a late block goes there, and a cause lists its own", "[.browser]") {
  if (!lacks_browser())
    check_group("late", "12");
}

TEST_CASE("a timeline is drawn in the light and the dark colours", "[.browser]") {
  if (lacks_browser())
    return;
  const auto said = [](const std::string& scheme) {
    written_trace given;
    write_two_late_blocks(given);
    return verdict(given.after("colours", {"--blink-settings=preferredColorScheme=" + scheme}));
  };

  const auto dark = said("0");
  const auto light = said("1");

  CHECK_THAT(dark, Contains("data-failed=\"\"") && Contains("data-ground=\"20,23,27\""));
  CHECK_THAT(light, Contains("data-failed=\"\"") && Contains("data-ground=\"255,255,255\""));
}

TEST_CASE("a timeline of 200,000 spans is drawn as fast as somebody moves it", "[.browser]") {
  if (lacks_browser())
    return;
  written_trace given;
  for (std::uint32_t i = 0; i != 40; ++i)
    given.track(10 + i, "stream " + std::to_string(i));
  nanoseconds now{};
  for (std::uint32_t i = 0; i != 50'000; ++i) {
    given.copy(i % 57, i + 1, now, now + 90us);
    given.copy(operation_tag::no_block, 0, now, now + 50us, 10 + i % 40);
    given.use(i % 57, i + 1, now + 60us, now + 90us, now + 150us); // With its wait: two spans.
    now += 150us;
  }

  const auto said = verdict(given.after("many"));

  CAPTURE(said);
  CHECK_THAT(said, Contains("data-failed=\"\"") && Contains("data-checked=\"7\""));
}

} // namespace
} // namespace ferry
