// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/trace_reader.hpp>
#include <ferry/offload/trace_writer.hpp>

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <nlohmann/json.hpp>

#include <set>
#include <sstream>
#include <string>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::uint32_t prefetcher = first_actor_track;
constexpr std::uint32_t copier = first_actor_track + 1;

const trace_track compute_row{0, 3, trace_row::stream, "compute"};
const trace_track copy_row{0, 4, trace_row::stream, "copy"};
const trace_track copier_row{0, copier, trace_row::actor, "copy_stream_worker"};

device_span fetch(std::uint32_t block, std::uint64_t ticket, nanoseconds start, nanoseconds end) {
  return {.track = 4,
          .what = "fetch",
          .block = block,
          .ticket = ticket,
          .bytes = 1000,
          .enqueued = 1ns,
          .start = start,
          .end = end};
}

message_span request(std::uint32_t block, std::uint64_t ticket, std::uint32_t slot,
                     nanoseconds at) {
  return {.track = copier,
          .what = "fetch_block",
          .block = block,
          .ticket = ticket,
          .slot = slot,
          .demanded = true,
          .sent = at - 5ns,
          .started = at,
          .finished = at + 3ns};
}

/// One block that is fetched and runs, on two ranks.
void write_small(trace_writer& writer) {
  writer.add(compute_row);
  writer.add(copy_row);
  writer.add(copier_row);
  writer.add(trace_track{1, 3, trace_row::stream, "compute"});
  writer.name_block(0, "transformer.blocks.0");
  writer.add(request(0, 7, 1, 10ns));
  writer.add(fetch(0, 7, 20ns, 1'000'020ns));
  writer.add(block_span{.track = 3,
                        .block = 0,
                        .ticket = 7,
                        .asked = 30ns,
                        .begun = 1'000'020ns,
                        .ended = 3'000'020ns});
  writer.add(message_span{.track = prefetcher,
                          .what = "block_released",
                          .block = 0,
                          .ticket = 7,
                          .slot = 1,
                          .sent = 40ns,
                          .started = 41ns,
                          .finished = 44ns});
  writer.add(trace_mark{.track = 3, .what = "step ended", .at = 3'000'020ns});
  writer.add(
      device_span{.rank = 1, .track = 3, .kind = operation_kind::compute, .what = "compute"});
}

std::string small_file() {
  std::ostringstream out;
  trace_writer writer(out, 1'700'000'000'123'456'789ns);
  write_small(writer);
  writer.drop(0, 1);
  writer.drop(1, 1);
  writer.drop(0, 1);
  writer.finish();
  return out.str();
}

json events_of(const std::string& text) {
  return json::parse(text)["traceEvents"];
}

result<trace> read(const std::string& text) {
  std::istringstream in(text);
  return read_trace(in, "'t.json'");
}

std::string refusal(const std::string& text) {
  const auto read_back = read(text);
  return read_back ? "" : read_back.error().detail;
}

/// A file whose second event is this.
std::string with_event(const std::string& event) {
  return R"([{"ph":"M","name":"ferry_trace","pid":0,"tid":0,"args":{"format":1}},)" + event + "]";
}

TEST_CASE("a trace reads back as it was written, to the nanosecond", "[offload][trace]") {
  const auto back = read(small_file());

  REQUIRE(back);
  CHECK(back->complete);
  CHECK(back->dropped == 2);
  CHECK(back->epoch == 1'700'000'000'123'456'789ns);
  REQUIRE(back->tracks.size() == 4);
  CHECK(back->tracks[0] == compute_row);
  CHECK(back->tracks[2] == copier_row);
  CHECK(back->tracks[3].rank == 1);
  CHECK(back->block_name(0) == "transformer.blocks.0");
  CHECK(back->block_name(5) == "block 5");
  REQUIRE(back->device.size() == 2);
  CHECK(back->device[1] == fetch(0, 7, 20ns, 1'000'020ns));
  REQUIRE(back->uses.size() == 1);
  CHECK(back->uses[0].wait() == 999'990ns);
  CHECK(back->uses[0].ended == 3'000'020ns);
  REQUIRE(back->messages.size() == 2);
  CHECK(back->messages[0] == request(0, 7, 1, 10ns));
  REQUIRE(back->marks.size() == 1);
  CHECK(back->marks[0].what == "step ended");
}

TEST_CASE("a trace counts the bytes moved and the slots in use", "[offload][trace]") {
  const auto back = read(small_file());

  REQUIRE(back);
  REQUIRE(back->counters.size() == 3);
  CHECK(back->counters[0] == trace_counter{0, "slots in use", 20ns, 1});
  CHECK(back->counters[1] == trace_counter{0, "bytes moved", 1'000'020ns, 1000});
  CHECK(back->counters[2] == trace_counter{0, "slots in use", 3'000'020ns, 0});
}

TEST_CASE("a trace that ends at any byte behind its first event can be read", "[offload][trace]") {
  const auto whole = small_file();
  const auto head = whole.find('\n', whole.find('\n') + 1);
  std::size_t most = 0;

  for (auto end = head; end != whole.size(); ++end) {
    const auto back = read(whole.substr(0, end));
    REQUIRE(back);
    REQUIRE(back->device.size() + back->uses.size() + back->messages.size() >= most);
    most = back->device.size() + back->uses.size() + back->messages.size();
  }
  CHECK(most == 5);
  CHECK_FALSE(read(whole.substr(0, whole.size() / 2))->complete);
}

TEST_CASE("a trace is an array until it ends, and an object then", "[offload][trace]") {
  std::ostringstream out;
  trace_writer writer(out);
  write_small(writer);
  writer.flush();
  const auto running = out.str();
  writer.finish();

  CHECK(json::parse(running + "]").is_array());
  CHECK(json::parse(out.str()).contains("traceEvents"));
  CHECK(read(running)->uses == read(out.str())->uses);
}

/// A stream that does not go back, as a pipe.
class one_way : public std::stringbuf {
protected:
  pos_type seekoff(off_type, std::ios::seekdir, std::ios::openmode) override { return -1; }
  pos_type seekpos(pos_type, std::ios::openmode) override { return -1; }
};

TEST_CASE("a trace that goes to a pipe is an object from the start", "[offload][trace]") {
  one_way pipe;
  std::ostream out(&pipe);
  trace_writer writer(out);
  write_small(writer);
  writer.finish();

  CHECK(out.good());
  CHECK(read(pipe.str())->complete);
}

/// What the trace event format asks of an event.
void check_schema(const json& event) {
  const std::set<std::string> phases{"M", "X", "i", "C", "s", "t", "f"};
  INFO(event.dump());
  const auto phase = event.at("ph").get<std::string>();
  REQUIRE(phases.contains(phase));
  REQUIRE(event.at("name").is_string());
  REQUIRE(event.at("pid").is_number_unsigned());
  REQUIRE(event.at("tid").is_number_unsigned());
  if (phase != "M")
    REQUIRE(event.at("ts").is_number());
  if (phase == "X")
    REQUIRE(event.at("dur").get<double>() >= 0);
  if (phase == "s" || phase == "t" || phase == "f")
    REQUIRE(event.at("id").is_string());
}

TEST_CASE("every event of a trace is one of the trace event format", "[offload][trace]") {
  for (const auto& event : events_of(small_file()))
    check_schema(event);
}

TEST_CASE("arrows lead from the message that asks for a block over its copy to its use",
          "[offload][trace]") {
  std::ostringstream out;
  trace_writer writer(out);
  write_small(writer);
  writer.add(fetch(0, 7, 1'000'020ns, 1'000'030ns)); // The second part of the block.
  writer.finish();
  json arrows = json::array();
  for (const auto& event : events_of(out.str()))
    if (event.contains("id"))
      arrows.push_back(event);

  REQUIRE(arrows.size() == 3);
  CHECK(arrows[0]["ph"] == "s");
  CHECK(arrows[0]["tid"] == copier);
  CHECK(arrows[1]["ph"] == "t");
  CHECK(arrows[1]["tid"] == 4);
  CHECK(arrows[2]["ph"] == "f");
  CHECK(arrows[2]["tid"] == 3);
  CHECK(arrows[0]["id"] == arrows[2]["id"]);
  CHECK(arrows[0]["id"] == arrows[1]["id"]);
}

TEST_CASE("a wait is a span of its own for whoever looks at it elsewhere", "[offload][trace]") {
  json waits = json::array();
  for (const auto& event : events_of(small_file()))
    if (event["name"] == "wait")
      waits.push_back(event);

  REQUIRE(waits.size() == 1);
  CHECK(waits[0]["ts"] == 0.03);
  CHECK(waits[0]["dur"] == 999.99);
}

TEST_CASE("names of any bytes make a file of JSON, and come back", "[offload][trace]") {
  std::ostringstream out;
  trace_writer writer(out);
  writer.name_block(1, "</script><script>\"\\\n");
  writer.name_block(2, "\xff\xfe");
  writer.finish();

  const auto back = read(out.str());

  REQUIRE(back);
  CHECK(back->block_name(1) == "</script><script>\"\\\n");
  CHECK(json::parse(out.str())["traceEvents"].is_array());
}

TEST_CASE("a file that is no trace of Ferry is refused, saying why", "[offload][trace]") {
  CHECK(refusal("").find("'t.json' ends before its first event") == 0);
  CHECK(refusal("[]").find("ends before its first event") != std::string::npos);
  CHECK(refusal("hello").find("begins with \"h\"") != std::string::npos);
  CHECK(refusal("\x1f\x8b\x08").find("is compressed; unpack it") != std::string::npos);
  CHECK(refusal(R"({"traceEvents":[]})").find("ends before its first event") != std::string::npos);
  CHECK(refusal(R"({"traceEvents":1})").find("expected '['") != std::string::npos);
  CHECK(refusal(R"({"events":[]})").find("does not begin with \"traceEvents\":") !=
        std::string::npos);
  CHECK(refusal(R"([{"ph":"X","name":"other"}])").find("'ferry_trace'") != std::string::npos);
  CHECK(refusal(R"([1])").find("where an event should begin") != std::string::npos);
  CHECK(refusal(with_event(R"({"ph":"i")") + "garbage").find("no JSON") != std::string::npos);
  CHECK(refusal(with_event(R"({"ph":"M","name":"x"})") + "garbage").find("behind its end") !=
        std::string::npos);
}

TEST_CASE("a trace of another format is refused as unsupported", "[offload][trace]") {
  const auto back = read(R"([{"ph":"M","name":"ferry_trace","args":{"format":2}}])");

  REQUIRE_FALSE(back);
  CHECK(back.error().code == errc::unsupported);
  CHECK(back.error().detail.find("format is 2; expected 1") != std::string::npos);
}

TEST_CASE("values that no run can have are refused, naming line and value", "[offload][trace]") {
  const auto span = [](const std::string& ts, const std::string& dur, const std::string& more) {
    return with_event(R"({"ph":"X","cat":"block","name":"block","ts":)" + ts + R"(,"dur":)" + dur +
                      R"(,"args":{"asked":0},)" + more + "}");
  };
  CHECK(refusal(span("1", "1", R"("pid":0,"tid":0)")).empty());
  CHECK(refusal(span("1e300", "1", R"("pid":0,"tid":0)")).find("line 1: ts is 1e+300") !=
        std::string::npos);
  CHECK(refusal(span("1", "-1", R"("pid":0,"tid":0)")).find("dur is -1") != std::string::npos);
  CHECK(refusal(span("-2", "1", R"("pid":0,"tid":0)")).find("asked is 0") != std::string::npos);
  CHECK(refusal(span("\"x\"", "1", R"("pid":0,"tid":0)")).find("ts is \"x\"") != std::string::npos);
  CHECK(refusal(span("1", "1", R"("pid":99999999999,"tid":0)")).find("pid is 99999999999") !=
        std::string::npos);
  CHECK(refusal(span("1", "1", R"("pid":0,"tid":-1)")).find("tid is -1") != std::string::npos);
  CHECK(refusal(span("1e9999", "1", R"("pid":0,"tid":0)")).find("no JSON") != std::string::npos);
}

TEST_CASE("a trace whose spans nobody could add up is refused", "[offload][trace]") {
  const auto spans = [](int count) {
    std::string all;
    for (int i = 0; i != count; ++i)
      all += std::string(i == 0 ? "" : ",\n") +
             R"({"ph":"X","cat":"block","name":"block","ts":1e13,"dur":9e12,"pid":0,"tid":0,)"
             R"("args":{"asked":9e12}})";
    return with_event(all);
  };

  CHECK(refusal(spans(9)).empty());
  CHECK(refusal(spans(10)).find("more than three years together") != std::string::npos);
}

TEST_CASE("a trace has no more ranks than can be looked at", "[offload][trace]") {
  const auto ranks = [](int count) {
    std::string all;
    for (int i = 0; i != count; ++i)
      all += std::string(i == 0 ? "" : ",\n") +
             R"({"ph":"i","name":"step ended","ts":1,"tid":0,"pid":)" + std::to_string(i * 7) + "}";
    return with_event(all);
  };

  CHECK(refusal(ranks(1024)).empty());
  CHECK(refusal(ranks(1025)).find("more than 1024 ranks") != std::string::npos);
}

TEST_CASE("a broken line is named by its number", "[offload][trace]") {
  auto text = small_file();
  std::size_t begin = 0;
  for (int line = 1; line != 5; ++line)
    begin = text.find('\n', begin) + 1;
  const auto broken =
      GENERATE(as<std::string>{}, R"({"ph":"M)", R"({"ph":"M",})", R"({"ph":)", "x");
  CAPTURE(broken);
  const auto end = text.find('\n', begin);
  text.replace(begin, end - begin, broken + ",");

  const auto why = refusal(text);

  CHECK(why.find("'t.json' line 5: ") == 0);
}

TEST_CASE("an event that is nested deeply or endless is refused", "[offload][trace]") {
  std::string deep = R"({"ph":)";
  deep.append(100'000, '[');
  std::string endless = R"({"ph":")";
  endless.append(100'000, 'x');

  CHECK(refusal(with_event(deep)).find("deeper than 8") != std::string::npos);
  CHECK(refusal(with_event(endless)).find("more than 65536 bytes") != std::string::npos);
}

TEST_CASE("a trace that cannot be opened is not found", "[offload][trace]") {
  const test::scratch_directory scratch;

  CHECK(read_trace(scratch.path() / "none.json").error().code == errc::not_found);
  CHECK(read_trace(scratch.path()).error().code == errc::not_found);
}

TEST_CASE("slots are counted when the device fills and leaves them", "[offload][trace]") {
  std::ostringstream out;
  trace_writer writer(out);
  const auto use = [](std::uint32_t block, nanoseconds begun, nanoseconds ended) {
    return block_span{.track = 3,
                      .block = block,
                      .ticket = block + 1,
                      .asked = begun,
                      .begun = begun,
                      .ended = ended};
  };
  // The host asks for all of it at once; copies are told before uses.
  for (std::uint32_t block = 0; block != 3; ++block)
    writer.add(request(block, block + 1, block % 2, 1ns));
  writer.add(fetch(0, 1, 10ns, 20ns));
  writer.add(fetch(1, 2, 20ns, 30ns));
  writer.add(fetch(2, 3, 40ns, 50ns));
  writer.add(use(0, 20ns, 40ns));
  writer.add(use(1, 40ns, 60ns));
  writer.add(use(2, 60ns, 70ns));
  writer.finish();

  const auto back = read(out.str()).value();
  std::vector<std::pair<int, int>> slots;
  for (const auto& each : back.counters)
    if (each.what == "slots in use")
      slots.emplace_back(each.at.count(), each.value);
  CHECK(slots ==
        std::vector<std::pair<int, int>>{{10, 1}, {20, 2}, {40, 1}, {40, 2}, {60, 1}, {70, 0}});
}

TEST_CASE("traces that cannot be of one run say why", "[offload][trace]") {
  const auto make = [](std::uint32_t rank, nanoseconds begin, bool real,
                       const std::string& path = "a") {
    trace made;
    if (real)
      made.epoch = 1s;
    made.blocks[0] = path;
    made.uses.push_back({.rank = rank, .asked = begin, .begun = begin, .ended = begin + 1s});
    return made;
  };
  const auto one = make(0, 0s, true);

  CHECK(why_not_of_one_run(one, make(1, 0s, true), 500ms) == "");
  CHECK(why_not_of_one_run(one, make(0, 0s, true), 0s) == "both have rank 0");
  CHECK(why_not_of_one_run(one, make(1, 0s, true), 2s) == "one had ended before the other began");
  CHECK(why_not_of_one_run(one, make(1, 0s, true), -2s) == "one had ended before the other began");
  CHECK(why_not_of_one_run(one, make(1, 5s, true), nanoseconds::max()) ==
        "one had ended before the other began");
  CHECK(why_not_of_one_run(one, make(1, -5s, true), nanoseconds::min()) ==
        "one had ended before the other began");
  CHECK(why_not_of_one_run(one, make(1, 0s, true, "b"), 0s) ==
        "block 0 is 'a' in one and 'b' in the other");
  CHECK(why_not_of_one_run(one, make(1, 0s, false), 0s).find("times are modelled") == 0);
  CHECK(why_not_of_one_run(make(1, 0s, false), one, 0s).find("times are modelled") == 0);
}

TEST_CASE("the trace of another rank comes in on the same clock", "[offload][trace]") {
  auto one = read(small_file()).value();
  auto other = read(small_file()).value();

  one.merge(std::move(other), 1s);

  REQUIRE(one.uses.size() == 2);
  CHECK(one.uses[1].asked == one.uses[0].asked + 1s);
  CHECK(one.device.back().what == "fetch");
  CHECK(one.device.back().enqueued == 1s + 1ns);
  CHECK(one.dropped == 4);
  CHECK(one.marks[0].what.data() == one.marks[1].what.data());
}

} // namespace
} // namespace ferry
