// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/prometheus.hpp>

#include "support/catch.hpp"

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

operation_span mark(const char* what, nanoseconds at) {
  operation_span span{};
  span.kind = operation_kind::mark;
  span.tag = {.what = what, .block = 0};
  span.end = at;
  return span;
}

/// Runs one block that is waited for and computes.
void run_block(request_meter& meter, nanoseconds wait, nanoseconds body) {
  meter.on_operation(mark(mark_acquire, 0ms));
  meter.on_operation(mark(mark_begin, wait));
  meter.on_operation(mark(mark_end, wait + body));
}

TEST_CASE("requests are added up when they have ended", "[offload][request_meter]") {
  request_meter meter;
  run_block(meter, 9ms, 9ms); // Outside a request.
  meter.begin();
  run_block(meter, 1ms, 2ms);
  CHECK(meter.sums().requests == 0);
  meter.end();

  CHECK(meter.sums().last->exposed_wait == 1ms);
  run_block(meter, 1ms, 2ms); // The device was behind.
  CHECK(meter.sums().last->exposed_wait == 2ms);

  meter.begin();
  run_block(meter, 5ms, 1ms);
  CHECK(meter.sums().requests == 1);
  CHECK(meter.sums().all.compute == 4ms);
  meter.end();

  CHECK(meter.sums().requests == 2);
  CHECK(meter.sums().last->exposed_wait == 5ms);
  CHECK(meter.sums().all.exposed_wait == 7ms);
}

TEST_CASE("a request that never ended is not counted", "[offload][request_meter]") {
  request_meter meter;
  meter.begin();
  run_block(meter, 1ms, 2ms);
  meter.begin();
  meter.end();

  CHECK(meter.sums().requests == 1);
  CHECK(meter.sums().all.blocks == 0);
}

offload_state some_state() {
  offload_state state;
  state.enabled = true;
  state.slots = 2;
  state.blocking_loads = 3;
  state.components["a\"b\\c\nd"].device_bytes = 4096;
  return state;
}

TEST_CASE("what a runtime knows is text that Prometheus scrapes", "[offload][prometheus]") {
  request_sums requests;
  requests.requests = 7;
  requests.all.exposed_wait = 1500us;
  requests.last.emplace();

  const auto text = prometheus_text(some_state(), requests);

  CHECK_THAT(text, Contains("# HELP ferry_requests_total Requests that ended.\n"
                            "# TYPE ferry_requests_total counter\nferry_requests_total 7\n"));
  CHECK_THAT(text, Contains("\nferry_exposed_wait_seconds_total 0.0015"));
  CHECK_THAT(text, Contains("\nferry_last_request_overlap_efficiency 1\n"));
  CHECK_THAT(text, Contains("\nferry_blocking_loads_total 3\n"));
  CHECK_THAT(text, Contains("\nferry_slots 2\n"));
}

TEST_CASE("every line of it is a comment or a sample with a name of its own",
          "[offload][prometheus]") {
  static const std::regex line(
      R"re(# (HELP|TYPE) ferry_[a-z_]+ .+|(ferry_[a-z_]+)(\{component="([^"\\\n]|\\.)*"\})? [-+.e0-9]+)re");
  std::istringstream text(prometheus_text(some_state(), {}));
  std::set<std::string> names;
  std::smatch found;

  for (std::string each; std::getline(text, each);) {
    INFO(each);
    REQUIRE(std::regex_match(each, found, line));
    if (found[2].matched)
      CHECK(names.insert(found[2]).second);
  }
  CHECK(names.size() > 15);
}

TEST_CASE("of several ranks every metric stands once, with a sample of each",
          "[offload][prometheus]") {
  rank_metrics first{.rank = 0, .state = some_state(), .requests = {}};
  rank_metrics second{.rank = 3, .state = some_state(), .requests = {}};
  second.state.slots = 4;
  second.requests.last.emplace();

  const auto text = prometheus_text(std::vector{first, second});

  CHECK_THAT(text, Contains("# TYPE ferry_slots gauge\nferry_slots{rank=\"0\"} 2\n"
                            "ferry_slots{rank=\"3\"} 4\n#"));
  CHECK_THAT(text, Contains("# TYPE ferry_last_request_overlap_efficiency gauge\n"
                            "ferry_last_request_overlap_efficiency{rank=\"3\"} 1\n#"));
  CHECK_THAT(text, Contains(R"({component="a\"b\\c\nd",rank="3"} 4096)"));
}

TEST_CASE("the name of a component cannot break out of its label", "[offload][prometheus]") {
  CHECK_THAT(prometheus_text(some_state(), {}),
             Contains(R"(ferry_component_device_bytes{component="a\"b\\c\nd"} 4096)"));
}

} // namespace
} // namespace ferry
