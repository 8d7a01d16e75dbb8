// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/trace_file.hpp>
#include <ferry/actors/trace_log.hpp>
#include <ferry/offload/overlap.hpp>
#include <ferry/offload/trace_reader.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/mapped_file.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;

/// A log of a device that nothing runs on.
template <class Device>
class lone_log {
public:
  template <class Options>
  explicit lone_log(const Options& options)
      : gpu(options), file_(std::make_shared<trace_file>(path_, gpu.traits().virtual_time
                                                                    ? trace_file::time::modelled
                                                                    : trace_file::time::real)),
        log(std::in_place, file_, 0U, gpu) {}

  void message(std::uint64_t actor, const char* name, nanoseconds started, nanoseconds finished) {
    log->record(actor, name,
                {.what = "ask", .sent = started, .started = started, .finished = finished});
  }
  void operation(operation_kind kind, operation_tag tag, nanoseconds start, nanoseconds end) {
    operation_span span{};
    span.kind = kind;
    span.tag = tag;
    span.enqueued = start;
    span.start = start;
    span.end = end;
    log->on_operation(span);
  }
  void mark(const char* what, std::uint64_t ticket, nanoseconds at) {
    operation(operation_kind::mark, {.what = what, .block = 0, .ticket = ticket}, at, at);
  }

  [[nodiscard]] trace recorded() {
    log.reset();
    REQUIRE(file_->finish());
    auto read = read_trace(path_);
    REQUIRE(read);
    return std::move(*read);
  }

private:
  test::scratch_directory scratch_;
  std::filesystem::path path_ = scratch_.path() / "t.json";

public:
  Device gpu;

private:
  std::shared_ptr<trace_file> file_;

public:
  std::optional<trace_log> log;
};

using sim_log = lone_log<sim_device>;

TEST_CASE("a paused log takes neither operations nor messages", "[actors][trace]") {
  sim_log subject{sim_options{}};
  subject.log->pause(true);
  subject.message(1, "worker", 1us, 2us);
  subject.operation(operation_kind::copy, {.what = "fetch"}, 1us, 2us);
  subject.log->pause(false);
  subject.message(1, "worker", 3us, 4us);

  const auto run = subject.recorded();

  CHECK(run.device.empty());
  REQUIRE(run.messages.size() == 1);
  CHECK(run.messages[0].started == 3us);
}

TEST_CASE("records that find no room are counted in the trace", "[actors][trace]") {
  lone_log<host_device> subject{host_device_options{.memory = 1 << 20}};
  for (std::size_t i = 0; i != trace_log::buffered + 3; ++i)
    subject.message(1, "worker", 1us, 2us);

  CHECK(subject.log->dropped() == 3);
  const auto run = subject.recorded();

  CHECK(run.messages.size() == trace_log::buffered);
  CHECK(run.dropped == 3);
}

TEST_CASE("the buffers of threads that ended go once what is in them is written",
          "[actors][trace]") {
  lone_log<host_device> subject{host_device_options{.memory = 1 << 20}};
  for (int i = 0; i != 20; ++i)
    std::thread([&] { subject.message(1, "worker", 1us, 2us); }).join();
  subject.message(1, "worker", 1us, 2us); // Of this one, which goes on.

  CHECK(subject.log->buffers() == 21);
  subject.log->flush();
  CHECK(subject.log->buffers() == 1);
  CHECK(subject.recorded().messages.size() == 21);
}

TEST_CASE("a thread that goes on keeps no buffer of a log that is gone", "[actors][trace]") {
  for (int i = 0; i != 3; ++i) {
    lone_log<host_device> subject{host_device_options{.memory = 1 << 20}};
    subject.message(1, "worker", 1us, 2us);
    CHECK(subject.log->buffers() == 1);
  }
}

TEST_CASE("records of a modelled clock find room", "[actors][trace]") {
  sim_log subject{sim_options{}};
  for (std::size_t i = 0; i != trace_log::buffered + 3; ++i)
    subject.message(1, "worker", 1us, 2us);

  const auto run = subject.recorded();

  CHECK(run.messages.size() == trace_log::buffered + 3);
  CHECK(run.dropped == 0);
}

TEST_CASE("messages and operations of a real clock count from the beginning of the recording",
          "[actors][trace]") {
  lone_log<host_device> subject{host_device_options{.memory = 1 << 20}};
  const auto now = subject.gpu.now();
  subject.message(1, "worker", now, now + 1ms);
  subject.operation(operation_kind::copy, {.what = "fetch"}, now + 1ms, now + 2ms);

  const auto run = subject.recorded();

  REQUIRE(run.messages.size() == 1);
  REQUIRE(run.device.size() == 1);
  CHECK(run.messages[0].started >= 0ns);
  CHECK(run.messages[0].started < 1min);
  CHECK(run.messages[0].sent == run.messages[0].started);
  CHECK(run.device[0].start == run.messages[0].finished);
  CHECK(run.device[0].enqueued == run.device[0].start);
  CHECK(run.device[0].end == run.device[0].start + 1ms);
}

TEST_CASE("the clocks of a trace agree however long its file takes to open", "[actors][trace]") {
  const test::scratch_directory scratch;
  const auto path = scratch.path() / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  std::string first;
  std::thread reader([&] {
    std::this_thread::sleep_for(300ms); // Until then the writer stands at the open.
    std::ifstream from(path);
    std::getline(from, first);
    std::getline(from, first);
  });

  nanoseconds since_zero{};
  nanoseconds since_epoch{};
  {
    trace_file subject(path, trace_file::time::real);
    since_zero = subject.offset_of(0ns);
    since_epoch = std::chrono::system_clock::now().time_since_epoch();
    subject.add([](trace_writer& to) { to.name_block(0, "a"); });
    reader.join();
  }

  const auto digits = first.find("\"epoch_ns\":");
  REQUIRE(digits != std::string::npos);
  const nanoseconds epoch{std::stoll(first.substr(digits + 11))};
  CHECK(since_epoch - epoch - since_zero < 100ms);
}

TEST_CASE("what disks read while a real clock runs is counted", "[actors][trace]") {
  const test::scratch_directory scratch;
  const auto path = scratch.write("weights", std::string(1 << 20, 'w'));
  const mapped_file file(path);
  const auto written = ::open(path.c_str(), O_RDONLY);
  REQUIRE(::fsync(written) == 0);
  ::close(written);
  lone_log<host_device> subject{host_device_options{.memory = 1 << 20}};
  const auto before = bytes_read_from_disk();
  drop_cached_pages(file.bytes());
  std::vector<std::byte> read(file.bytes().size());
  read_mapped(file.bytes(), read);
  const auto from_disk = bytes_read_from_disk() - before;

  const auto run = subject.recorded();

  if (from_disk == 0)
    WARN("the directory for scratch files is on no disk");
  REQUIRE(std::ranges::count(run.counters, disk_counter, &trace_counter::what) >= 1);
  CHECK(run.counters.back().value >= (from_disk == 0 ? 0 : read.size()));
}

TEST_CASE("actors of one name have rows of their own", "[actors][trace]") {
  sim_log subject{sim_options{}};
  subject.message(7, "worker", 1us, 2us);
  subject.message(9, "worker", 3us, 4us);
  subject.message(7, "worker", 5us, 6us);

  const auto run = subject.recorded();

  REQUIRE(run.tracks.size() == 2);
  CHECK(run.tracks[0].name == "worker");
  CHECK(run.tracks[1].name == "worker 2");
  CHECK(run.messages[0].track == run.messages[2].track);
  CHECK(run.messages[0].track != run.messages[1].track);
}

TEST_CASE("a use is recorded from its own marks, and none where a mark is lost",
          "[actors][trace]") {
  sim_log subject{sim_options{}};
  subject.mark(mark_acquire, 0, 1us);
  subject.mark(mark_begin, 1, 3us);
  subject.mark(mark_end, 1, 7us);
  subject.mark(mark_begin, 2, 8us);
  subject.mark(mark_end, 3, 9us);
  subject.mark(mark_end, 4, 10us);

  const auto run = subject.recorded();

  REQUIRE(run.uses.size() == 1);
  CHECK(run.uses[0].asked == 1us);
  CHECK(run.uses[0].begun == 3us);
  CHECK(run.uses[0].ended == 7us);
}

TEST_CASE("what takes no time is recorded only where it moves something", "[actors][trace]") {
  sim_log subject{sim_options{}};
  subject.operation(operation_kind::compute, {.what = "compute"}, 1us, 1us);
  subject.operation(operation_kind::discard, {.what = "discard"}, 1us, 1us);
  subject.operation(operation_kind::copy, {.what = "fetch"}, 1us, 1us);
  subject.operation(operation_kind::gather, {.what = "gather"}, 2us, 2us);

  const auto run = subject.recorded();

  REQUIRE(run.device.size() == 2);
  CHECK(run.device[0].what == "fetch");
  CHECK(run.device[1].what == "gather");
}

TEST_CASE("the latest end of a message is the latest of all", "[actors][trace]") {
  sim_log subject{sim_options{}};
  subject.message(1, "worker", 1us, 9us);
  subject.message(2, "worker", 2us, 5us);

  CHECK(subject.log->latest() == 9us);
}

} // namespace
} // namespace ferry
