// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/mapped_file.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include "contract/device_rig.hpp"
#include "support/catch.hpp"
#include "support/resident_pages.hpp"
#include "support/scratch_directory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace ferry;
using namespace ferry::test;

namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr auto options = host_device_options{.memory = 64 * MiB};

/// Lets a copy end only once another thread copies as well.
class meeting final : public operation_observer {
public:
  void on_operation(const operation_span&) override { both_.arrive_and_wait(); }
  void on_stream(stream_id, std::string_view) override {}

private:
  std::barrier<> both_{2};
};

/// Keeps copies from ending until they are let through.
class turnstile final : public operation_observer {
public:
  void let_through(int copies) {
    {
      const std::lock_guard lock(mutex_);
      tickets_ += copies;
    }
    changed_.notify_all();
  }

  void on_operation(const operation_span&) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tickets_ > 0; });
    --tickets_;
  }
  void on_stream(stream_id, std::string_view) override {}

private:
  std::mutex mutex_;
  std::condition_variable changed_; // GCC 12's std::counting_semaphore can sleep for ever.
  int tickets_ = 0;
};

class failing_observer final : public operation_observer {
public:
  void on_operation(const operation_span&) override {
    released_.wait();
    throw std::runtime_error("disk on fire");
  }
  void on_stream(stream_id, std::string_view) override {}

  /// Lets operations fail; until then they are held.
  void go() { go_.set_value(); }

private:
  std::promise<void> go_;
  std::shared_future<void> released_ = go_.get_future().share();
};

/// Returns how much of the process is made of file pages, in bytes.
std::size_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t total = 0;
  while (status >> word) {
    std::size_t kibibytes = 0;
    if ((word == "RssFile:" || word == "RssShmem:") && status >> kibibytes)
      total += kibibytes * 1024;
  }
  return total;
}

/// Notes the largest part of the process that was made of file pages after any operation.
class residency_observer final : public operation_observer {
public:
  void on_operation(const operation_span&) override {
    peak_ = std::max(peak_, resident_file_bytes());
  }
  void on_stream(stream_id, std::string_view) override {}

  [[nodiscard]] std::size_t peak() const { return peak_; }

private:
  std::size_t peak_ = 0;
};

copy_operation fetch(mutable_bytes target, const_bytes source) {
  return {
      .target = target, .source = source, .from = memory_kind::mapped, .tag = {.what = "fetch"}};
}

} // namespace

TEST_CASE("the host device says that compute runs on the host in real time") {
  const host_device machine(options);

  CHECK(machine.traits().name == "host");
  CHECK(machine.traits().computes_on_host);
  CHECK_FALSE(machine.traits().virtual_time);
  CHECK_FALSE(machine.traits().wants_pinned_sources);
}

TEST_CASE("copies on two streams of the host device run at the same time") {
  host_device machine(options);
  const auto first_slot = on_device(machine);
  const auto second_slot = on_device(machine);
  const auto weights = pinned(machine, 1);
  meeting both;
  stream first(machine, "first");
  stream second(machine, "second");
  machine.attach(both);

  first.copy(upload(first_slot, weights));
  second.copy(upload(second_slot, weights));
  first.synchronize(contract_edge);
  second.synchronize(contract_edge);

  machine.detach(both);
  CHECK(machine.counters().copies == 2);
}

TEST_CASE("an idle stream of the host device completes everything but copies at once") {
  host_device machine(options);
  const auto slot = on_device(machine);
  const auto threads = thread_count();
  stream queue(machine, "compute");
  event done(machine);

  const auto read = const_bytes(slot.bytes());
  queue.compute({.reads = {&read, 1}});
  queue.discard(slot.bytes(), {});
  queue.mark({.what = "step"});
  queue.wait(done, contract_edge);
  queue.record(done);

  CHECK(done.ready());
  CHECK(thread_count() == threads);
}

TEST_CASE("a copy on the host device runs on its stream's thread, which ends with the stream") {
  host_device machine(options);
  const auto slot = on_device(machine);
  const auto weights = pinned(machine, 1);
  const auto threads = thread_count();

  {
    stream queue(machine, "copies");
    queue.copy(upload(slot, weights));
    queue.synchronize(contract_edge);
    CHECK(thread_count() == threads + 1);
  }

  CHECK(thread_count() == threads);
}

TEST_CASE("destroying a stream of the host device runs what is queued") {
  host_device machine(options);
  const auto slot = on_device(machine);
  const auto weights = pinned(machine, 1);

  {
    stream queue(machine, "copies");
    for (int i = 0; i < 100; ++i)
      queue.copy(upload(slot, weights));
  }

  CHECK(every_byte_is(slot.bytes(), 1));
}

TEST_CASE("a wait for work that has not run holds a stream of the host device back") {
  host_device machine(options);
  const auto slot = on_device(machine);
  const auto weights = pinned(machine, 1);
  stream copies(machine, "copies");
  stream compute(machine, "compute");
  event copied(machine);
  event passed(machine);
  turnstile held;
  machine.attach(held);

  copies.copy(upload(slot, weights));
  copies.record(copied);
  compute.wait(copied, contract_edge);
  compute.record(passed);

  CHECK_FALSE(copied.ready());
  CHECK_FALSE(passed.ready());
  held.let_through(1);
  passed.synchronize(contract_edge);
  CHECK(copied.ready());
  CHECK(passed.ready());
  machine.detach(held);
}

TEST_CASE("a compute on the host device lasts until the next operation or record on its stream") {
  using step = void (*)(std::unique_ptr<stream>&, event&);
  const step next =
      GENERATE(step([](std::unique_ptr<stream>& queue, event& done) { queue->record(done); }),
               step([](std::unique_ptr<stream>& queue, event&) { queue->discard({}, {}); }),
               step([](std::unique_ptr<stream>& queue, event&) { queue->mark({}); }),
               step([](std::unique_ptr<stream>& queue, event&) { queue->compute({}); }),
               step([](std::unique_ptr<stream>& queue, event&) {
                 queue->copy({.target = {}, .source = {}});
                 queue->synchronize(contract_edge);
               }),
               step([](std::unique_ptr<stream>& queue, event&) { queue.reset(); }));
  host_device machine(options);
  recording_observer observer;
  machine.attach(observer);
  auto queue = std::make_unique<stream>(machine, "compute");
  event done(machine);

  queue->compute({.tag = {.what = "block", .block = 3}});
  queue->settle();
  const auto during = machine.now();
  next(queue, done);

  machine.detach(observer);
  const auto computes = observer.spans_of(operation_kind::compute);
  REQUIRE(computes.size() == 1);
  CHECK(computes[0].tag.block == 3);
  CHECK(computes[0].start <= during);
  CHECK(computes[0].end >= during);
}

TEST_CASE("a compute behind a copy of the host device begins when the copy has ended") {
  host_device machine(options);
  const auto slot = on_device(machine);
  const auto weights = pinned(machine, 1);
  recording_observer observer;
  machine.attach(observer);
  stream queue(machine, "both");

  queue.copy(upload(slot, weights));
  queue.compute({.tag = {.what = "block"}});
  queue.settle();
  queue.mark({.what = "end"});

  machine.detach(observer);
  const auto spans = observer.spans();
  REQUIRE(spans.size() == 3);
  CHECK(spans[1].kind == operation_kind::compute);
  CHECK(spans[1].start >= spans[0].end);
  CHECK(spans[1].end >= spans[1].start);
}

TEST_CASE("a device whose observer has thrown says so in every wait from then on") {
  host_device machine(options);
  const auto slot = on_device(machine);
  const auto weights = pinned(machine, 1);
  const auto other_weights = pinned(machine, 2);
  failing_observer broken;
  stream copies(machine, "copies");
  stream other(machine, "other");
  event copied(machine);
  machine.attach(broken);

  copies.copy(upload(slot, weights));
  copies.copy(upload(slot, other_weights));
  copies.record(copied);
  broken.go();

  const auto cause = Catch::Matchers::Matches("device_failure: .*disk on fire");
  CHECK_THROWS_WITH(copies.synchronize(contract_edge), cause);
  machine.detach(broken);
  CHECK_THROWS_WITH(copied.synchronize(contract_edge), cause);
  CHECK_THROWS_WITH(other.settle(), cause);
  CHECK_NOTHROW(copies.drain(contract_edge));
  CHECK_NOTHROW(copied.drain(contract_edge));
  CHECK_THROWS_WITH(other.copy(upload(slot, other_weights)),
                    Catch::Contains("device_poisoned") && Catch::Contains("disk on fire"));
  CHECK(every_byte_is(slot.bytes(), 1));
}

TEST_CASE("the host device refuses a copy whose sides differ in length") {
  host_device machine(options);
  const auto slot = on_device(machine);
  const auto weights = pinned(machine, 1);
  stream queue(machine, "copies");

  CHECK_THROWS_WITH(machine.copy(queue.id(), {.target = slot.bytes().first(1),
                                              .source = weights.bytes().first(2)}),
                    "invalid_argument: copy: target has 1 bytes, source has 2");
}

TEST_CASE("the host device allocates only device and pinned memory, and never nothing") {
  host_device machine(options);

  CHECK_THROWS_WITH(machine.allocate(memory_kind::mapped, 1), Catch::Contains("invalid_argument"));
  CHECK_THROWS_WITH(machine.allocate(memory_kind::pageable, 1),
                    Catch::Contains("invalid_argument"));
  CHECK_THROWS_WITH(machine.allocate(memory_kind::device, 0), Catch::Contains("asked for 0 bytes"));
}

TEST_CASE("pinned memory does not count against the ceiling of the host device") {
  host_device machine({.memory = 4096});

  CHECK_NOTHROW(memory_block(machine, memory_kind::pinned, 8192));
}

TEST_CASE("memory that the host device did not allocate is not released") {
  host_device machine(options);
  auto foreign = std::vector<std::byte>(4096, std::byte{1});
  const auto block = memory_block(machine, memory_kind::device, 4096);
  log_at_least(log_level::off);

  machine.release(memory_kind::device, foreign);
  machine.release(memory_kind::pinned, block.bytes());
  machine.release(memory_kind::device, block.bytes().first(1));

  log_at_least(log_level::warn);
  CHECK(every_byte_is(foreign, 1));
  CHECK(machine.counters().device_bytes == 4096);
  CHECK(machine.counters().pinned_bytes == 0);
}

TEST_CASE("a copy from a mapped file brings its bytes") {
  const scratch_directory directory;
  const mapped_file file(directory.write("weights", std::string(9 * MiB, 'w')));
  host_device machine(options);
  const auto slot = memory_block(machine, memory_kind::device, 9 * MiB);
  stream copies(machine, "copies");

  copies.copy(fetch(slot.bytes(), file.bytes()));
  copies.synchronize(contract_edge);

  CHECK(every_byte_is(slot.bytes(), 'w'));
}

TEST_CASE("a file larger than the slot passes through without becoming resident") {
  const scratch_directory directory;
  const auto path = directory.write("weights", "");
  std::filesystem::resize_file(path, 256 * MiB);
  const mapped_file file(path);
  host_device machine(options);
  const auto slot = memory_block(machine, memory_kind::device, 8 * MiB);
  residency_observer residency;
  stream copies(machine, "copies");
  machine.attach(residency);
  const auto before = resident_file_bytes();

  for (std::size_t offset = 0; offset < file.bytes().size(); offset += slot.size())
    copies.copy(fetch(slot.bytes(), file.bytes().subspan(offset, slot.size())));
  copies.synchronize(contract_edge);

  machine.detach(residency);
  CHECK(residency.peak() < before + 48 * MiB);
}

/// Two streams of a device, the first of which copies from a file that has been cut short.
struct cut_file {
  scratch_directory directory;
  std::filesystem::path path = directory.write("weights", std::string(2 * MiB, 'w'));
  mapped_file file{path};
  host_device machine{options};
  memory_block slot{machine, memory_kind::device, 2 * MiB};
  memory_block weights = pinned(machine, 1);
  stream copies{machine, "copies"};
  stream compute{machine, "compute"};
  event before{machine};
  event behind{machine};

  cut_file() {
    std::filesystem::resize_file(path, 1 * MiB);
    copies.record(before);
    copies.copy(fetch(slot.bytes(), file.bytes()));
    copies.record(behind);
  }

  [[nodiscard]] auto cause() const {
    return Catch::Matchers::Matches("io_failure: .*weights' .*was changed while it was in use.*");
  }
};

TEST_CASE("a file that is cut short under a copy is what each wait behind it tells") {
  cut_file cut;

  CHECK_THROWS_WITH(cut.copies.synchronize(contract_edge), cut.cause());
  CHECK_THROWS_WITH(cut.behind.synchronize(contract_edge), cut.cause());
  CHECK_THROWS_AS(cut.behind.synchronize(contract_edge), operation_failed);
  CHECK_NOTHROW(cut.before.synchronize(contract_edge));
  CHECK_THROWS_WITH(cut.copies.settle(), cut.cause());
}

TEST_CASE("nothing moves behind a copy that failed, and streams that do not wait for it go on") {
  cut_file cut;
  auto target = on_device(cut.machine);
  auto other = on_device(cut.machine);
  const auto more = pinned(cut.machine, 2);

  cut.copies.copy(upload(target, more));
  cut.compute.copy(upload(other, more));

  CHECK_NOTHROW(cut.compute.synchronize(contract_edge));
  CHECK(every_byte_is(other.bytes(), 2));
  cut.copies.drain(contract_edge);
  CHECK_FALSE(every_byte_is(target.bytes(), 2));
}

TEST_CASE("what is enqueued behind a drain has nothing to do with what failed before it") {
  const auto by_event = GENERATE(false, true);
  cut_file cut;
  auto target = on_device(cut.machine);
  const auto more = pinned(cut.machine, 2);
  event again(cut.machine);
  cut.compute.wait(cut.behind, contract_edge);

  if (by_event)
    cut.behind.drain(contract_edge);
  else
    cut.copies.drain(contract_edge);
  cut.copies.copy(upload(target, more));
  cut.copies.record(again);

  CHECK_NOTHROW(again.synchronize(contract_edge));
  CHECK(every_byte_is(target.bytes(), 2));
  CHECK_THROWS_WITH(cut.behind.synchronize(contract_edge), cut.cause());
  CHECK_THROWS_WITH(cut.compute.synchronize(contract_edge), cut.cause());
  cut.copies.copy(fetch(cut.slot.bytes(), cut.file.bytes()));
  CHECK_THROWS_WITH(cut.copies.synchronize(contract_edge), cut.cause());
  CHECK_NOTHROW(again.synchronize(contract_edge));
}

TEST_CASE("what did not move because of a failure stays failed when that is drained") {
  cut_file cut;
  const auto target = on_device(cut.machine);
  const auto more = pinned(cut.machine, 2);
  event skipped(cut.machine);
  cut.copies.copy(upload(target, more));
  cut.copies.record(skipped);
  while (!skipped.ready())
    std::this_thread::yield();

  cut.behind.drain(contract_edge);

  CHECK_THROWS_WITH(skipped.synchronize(contract_edge), cut.cause());
  CHECK_FALSE(every_byte_is(target.bytes(), 2));
  cut.copies.copy(upload(target, more));
  CHECK_NOTHROW(cut.copies.synchronize(contract_edge));
  CHECK(every_byte_is(target.bytes(), 2));
}

TEST_CASE("a stream tells the first of two failures, and one drain is enough for both") {
  cut_file cut;
  const auto path = cut.directory.write("others", std::string(1 * MiB, 'o'));
  const mapped_file others(path);
  const memory_block room(cut.machine, memory_kind::device, 1 * MiB); // The slot is written.
  stream beside(cut.machine, "beside");
  event behind_others(cut.machine);
  event between(cut.machine);
  std::filesystem::resize_file(path, 1);
  beside.copy(fetch(room.bytes(), others.bytes()));
  beside.record(behind_others);

  cut.compute.wait(cut.behind, contract_edge);
  cut.compute.record(between);
  cut.compute.wait(behind_others, contract_edge);

  CHECK_THROWS_WITH(cut.compute.synchronize(contract_edge), cut.cause());
  CHECK_THROWS_WITH(between.synchronize(contract_edge), cut.cause());
  cut.compute.drain(contract_edge);
  cut.compute.record(between);
  CHECK_NOTHROW(between.synchronize(contract_edge));
}

TEST_CASE("a stream that waits for a copy that failed has failed itself, from there on") {
  const auto settled = GENERATE(false, true);
  cut_file cut;
  event own(cut.machine);
  if (settled) // Before anybody waits for it.
    cut.behind.drain(contract_edge);

  cut.compute.record(own);
  cut.compute.wait(cut.behind, contract_edge);

  CHECK_THROWS_WITH(cut.compute.settle(), cut.cause());
  CHECK_NOTHROW(own.synchronize(contract_edge));
}

TEST_CASE("a copy that failed has ended: draining returns") {
  cut_file cut;

  CHECK_NOTHROW(cut.behind.drain(contract_edge));
  CHECK_NOTHROW(cut.copies.drain(contract_edge));
  CHECK(cut.behind.ready());
}

TEST_CASE("pages that compute reads in place count as a copy, and leave when they are evicted") {
  const scratch_directory directory;
  const mapped_file file(directory.write("weights", std::string(9 * MiB, 'w')));
  host_device machine(options);
  stream copies(machine, "copies");

  copies.populate(file.bytes(), {.what = "fetch"});
  copies.synchronize(contract_edge);
  CHECK(machine.counters().h2d_bytes == 9 * MiB);
  CHECK(machine.counters().copies == 1);
  const auto there = resident_file_bytes();
  copies.evict(file.bytes(), {.what = "evict"});
  copies.synchronize(contract_edge);
  CHECK(resident_file_bytes() + 8 * MiB <= there);
}

TEST_CASE("a file that is cut short before its pages are got is what the next wait tells") {
  const scratch_directory directory;
  const auto path = directory.write("weights", std::string(2 * MiB, 'w'));
  const mapped_file file(path);
  host_device machine(options);
  stream copies(machine, "copies");
  std::filesystem::resize_file(path, 1 * MiB);

  copies.populate(file.bytes(), {.what = "fetch"});

  CHECK_THROWS_WITH(copies.synchronize(contract_edge),
                    Catch::Contains(path.string()) &&
                        Catch::Contains("was changed while it was in use"));
}

TEST_CASE("a copy converts what it reads of a mapped file, and leaves nothing of it resident") {
  const scratch_directory directory;
  const mapped_file file(directory.write("weights", std::string(9 * MiB, '\x40')));
  host_device machine(options);
  const auto slot = memory_block(machine, memory_kind::device, 18 * MiB);
  stream copies(machine, "copies");
  auto widened = fetch(slot.bytes(), file.bytes());
  widened.convert = conversion::bf16_to_f32;

  copies.copy(widened);
  copies.synchronize(contract_edge);

  std::vector<std::uint32_t> seen(slot.size() / 4);
  std::memcpy(seen.data(), slot.bytes().data(), slot.size());
  CHECK(std::ranges::count(seen, 0x4040'0000U) == std::ssize(seen));
  CHECK(test::resident_pages(file.bytes()) == 0);
}

TEST_CASE("one large copy does not become resident as a whole") {
  const scratch_directory directory;
  const auto path = directory.write("weights", "");
  std::filesystem::resize_file(path, 128 * MiB);
  const mapped_file file(path);
  host_device machine({.memory = 128 * MiB});
  const auto slot = memory_block(machine, memory_kind::device, 128 * MiB);
  std::ranges::fill(slot.bytes(), std::byte{1});
  stream copies(machine, "copies");
  event copied(machine);
  const auto before = resident_file_bytes();
  auto peak = before;

  copies.copy(fetch(slot.bytes(), file.bytes()));
  copies.record(copied);
  while (!copied.ready())
    peak = std::max(peak, resident_file_bytes());

  CHECK(peak < before + 48 * MiB);
  CHECK(every_byte_is(slot.bytes(), 0));
}

namespace {

/// Returns how many pages of a mapped file are in the page cache.
std::size_t cached_pages(const_bytes file) {
  std::vector<unsigned char> there((file.size() + page_bytes() - 1) / page_bytes());
  REQUIRE(::mincore(const_cast<std::byte*>(file.data()), file.size(), there.data()) == 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(there, [](unsigned char page) { return (page & 1U) != 0; }));
}

void write_through(const std::filesystem::path& path) {
  const auto file = ::open(path.c_str(), O_RDONLY);
  REQUIRE(::fsync(file) == 0);
  ::close(file);
}

} // namespace

TEST_CASE("pieces of files leave the page cache behind their use where there is no room for them") {
  const scratch_directory directory;
  const auto path = directory.write("weights", std::string(9 * MiB, 'w'));
  write_through(path);
  const mapped_file file(path);
  drop_cached_pages(file.bytes());
  if (cached_pages(file.bytes()) != 0) {
    WARN("the directory for scratch files keeps its pages");
    return;
  }
  const auto in_place = GENERATE(false, true);
  const auto room = GENERATE(std::optional<std::uint64_t>(0), std::optional<std::uint64_t>());
  CAPTURE(in_place, room.has_value());
  host_device machine({.memory = 64 * MiB, .page_cache = room});
  const auto slot = memory_block(machine, memory_kind::device, 9 * MiB);
  stream copies(machine, "copies");
  for (int round = 0; round != 2; ++round) {
    if (in_place) {
      copies.populate(file.bytes(), {.what = "fetch"});
      copies.evict(file.bytes(), {.what = "evict"});
    } else {
      copies.copy(fetch(slot.bytes(), file.bytes()));
    }
    copies.synchronize(contract_edge);
  }
  const auto all = 9 * MiB / page_bytes();
  CHECK(cached_pages(file.bytes()) <= (room ? all / 8 : all));
  CHECK((room || cached_pages(file.bytes()) == all));
}
