// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/stream.hpp>

#include "contract/device_rig.hpp"
#include "nccl/nccl_check.hpp"
#include "support/nccl_ranks.hpp"
#include "support/skip.hpp"
#include "support/standard_error.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ferry::test {
namespace {

using Catch::Contains;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr nanoseconds endless = 5min;
const failure disk_full{.code = errc::io_failure, .detail = "the disk is full"};

/// A process of this machine that lives until it is killed.
class other_process {
public:
  other_process() : id_(::fork()) {
    if (id_ == 0)
      for (;;)
        ::pause();
  }
  other_process(const other_process&) = delete;
  other_process& operator=(const other_process&) = delete;
  ~other_process() { kill(); }

  void kill() {
    if (std::exchange(alive_, false)) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
  }

  [[nodiscard]] process_identity identity() const {
    auto stat = std::ifstream("/proc/" + std::to_string(id_) + "/stat");
    auto line = std::string();
    std::getline(stat, line);
    auto words = std::istringstream(line.substr(line.rfind(')') + 1));
    auto word = std::string();
    for (int field = 3; field <= 22; ++field)
      words >> word;
    return {.place = this_process().place, .id = id_, .started = std::stoull(word)};
  }

private:
  ::pid_t id_;
  bool alive_ = true;
};

/// Returns the cause once the group has failed, or nothing after a while.
std::optional<failure> soon_failed(const communicator& end, nanoseconds within = 5s) {
  const auto deadline = clock::now() + within;
  while (!end.asynchronous_failure() && clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  return end.asynchronous_failure();
}

/// One rank's memory and stream. Forgives a stream whose collective was ended.
class gathering {
public:
  /// @param end which of all the ends
  gathering(nccl_ranks& ranks, std::size_t end)
      : end_(ranks.ends[end].get()), own_(*ranks.gpus[end % ranks.gpus.size()], *end_, 64) {}

  void start(std::uint32_t block = 0) { own_.gather(block); }
  void finish() { own_.finish(); }
  /// Gathers and tells why that failed, if it did.
  std::optional<failure> gather(std::uint32_t block = 0) {
    try {
      own_.gather(block);
    } catch (const device_error& error) {
      return error.reason();
    }
    own_.finish();
    return end_->asynchronous_failure();
  }

private:
  communicator* end_;
  rank_at_work own_;
};

std::vector<std::string> calls_of(const fake_nccl& library, int rank) {
  auto calls = library.calls();
  const auto prefix = "rank " + std::to_string(rank) + " ";
  std::erase_if(calls, [&](const auto& call) { return !call.starts_with(prefix); });
  for (auto& call : calls)
    call.erase(0, prefix.size());
  return calls;
}

/// Closes everything of the ranks but the library, and checks that it was.
void close(nccl_ranks& ranks) {
  ranks.ends.clear();
  for (auto& gpu : ranks.gpus) {
    const auto& device = *gpu;
    const auto deadline = clock::now() + 10s;
    while (device.counters().events != 0 && clock::now() < deadline)
      std::this_thread::sleep_for(1ms);
    CHECK(device.counters().events == 0);
    CHECK(device.counters().streams == 0);
    CHECK(device.counters().device_bytes == 0);
    gpu.reset();
  }
}

// The library

TEST_CASE("the NCCL library has every call that Ferry makes", "[nccl]") {
  const auto loaded = nccl::load_api("libnccl.so.2", FERRY_NCCL_LIBRARY_DIRS);
  if (!loaded) {
    skip(loaded.error().detail);
    return;
  }

  const auto version = nccl::usable_version(*loaded);

  REQUIRE(version);
  CHECK_THAT(nccl::version_text(*version), Catch::StartsWith("2."));
  CHECK(nccl_version() == nccl::version_text(*version));
}

TEST_CASE("a NCCL library without a call that Ferry makes is refused with its name", "[nccl]") {
  const auto filled = nccl::fill_api(
      [](const char* name) -> void* {
        static int something;
        return name == std::string_view("ncclCommFinalize") ? nullptr : &something;
      },
      "libnccl.so.2");

  REQUIRE_FALSE(filled);
  CHECK(filled.error().code == errc::unsupported);
  CHECK(filled.error().detail ==
        "libnccl.so.2 has no ncclCommFinalize; NCCL 2.14.0 or later is needed");
}

TEST_CASE("a NCCL library that is absent is named with where it was looked for", "[nccl]") {
  const auto loaded = nccl::load_api("libnccl-absent.so.2", "/nowhere:/nor/here");

  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == errc::unsupported);
  CHECK_THAT(loaded.error().detail, Contains("libnccl-absent.so.2 cannot be loaded") &&
                                        Contains("/nowhere:/nor/here") &&
                                        Contains("LD_LIBRARY_PATH"));
}

TEST_CASE("a version of NCCL that can only block is refused", "[nccl]") {
  const fake_nccl library;

  const auto usable = nccl::usable_version(library.oldest_library());

  REQUIRE_FALSE(usable);
  CHECK(usable.error().detail == "NCCL is of version 2.13.4; expected 2.14.0 or later with major "
                                 "version 2");
  CHECK(nccl::usable_version(library.older_library()) == NCCL_VERSION(2, 21, 5));
}

TEST_CASE("versions of NCCL are written as people do", "[nccl]") {
  CHECK(nccl::version_text(22809) == "2.28.9");
  CHECK(nccl::version_text(21000) == "2.10.0");
  CHECK(nccl::version_text(2708) == "2.7.8");
}

TEST_CASE("a failure of NCCL tells the call, the result and the last error", "[nccl]") {
  fake_nccl library;
  library.say("NET/IB : no device found");

  const auto failed =
      nccl::check(library.library(), "ncclCommInitRankConfig", ncclSystemError).error();
  const auto remote = nccl::check(library.library(), "ncclAllGather", ncclRemoteError).error();

  CHECK(failed == failure{.code = errc::device_failure,
                          .detail = "ncclCommInitRankConfig: something went wrong "
                                    "(ncclSystemError): NET/IB : no device found",
                          .vendor_code = ncclSystemError});
  CHECK(remote.code == errc::transfer_aborted);
  CHECK(nccl::check(library.library(), "ncclAllGather", ncclInProgress));
}

// Order of calls

TEST_CASE("a rank connects, gathers and leaves by exactly these calls", "[nccl]") {
  nccl_ranks ranks(1, {.patience = endless});
  {
    gathering own(ranks, 0);
    CHECK_FALSE(own.gather());
    CHECK_FALSE(own.gather());
  }

  close(ranks);

  CHECK(calls_of(*ranks.library, 0) ==
        std::vector<std::string>{"ncclGetUniqueId", "ncclCommInitRankConfig", "ncclAllGather",
                                 "ncclAllGather", "ncclAllGather", "ncclCommFinalize",
                                 "ncclCommDestroy"});
}

TEST_CASE("a group that fails is aborted once on each rank and not finalized", "[nccl]") {
  nccl_ranks ranks(2, {.patience = endless});

  ranks.ends[0]->abort(disk_full);
  ranks.ends[1]->abort(disk_full);
  close(ranks);

  for (const auto rank : {0, 1}) {
    CHECK(ranks.library->count("ncclCommAbort", rank) == 1);
    CHECK(ranks.library->count("ncclCommFinalize", rank) == 0);
    CHECK(ranks.library->count("ncclCommDestroy", rank) == 0);
  }
}

TEST_CASE("NCCL that takes its time is asked until it is done", "[nccl]") {
  nccl_ranks ranks(2);
  for (const auto rank : {0, 1})
    for (const auto* call : {"ncclCommInitRankConfig", "ncclAllGather", "ncclCommFinalize"})
      ranks.library->delay(call, rank, 7);

  for (auto& joined : ranks.join({.patience = endless}))
    ranks.ends.push_back(std::move(joined.value()));
  auto other = std::async(std::launch::async, [&] { return gathering(ranks, 1).gather(); });
  const auto failed = gathering(ranks, 0).gather();
  CHECK_FALSE(other.get());
  close(ranks);

  CHECK_FALSE(failed);
  CHECK(ranks.library->count("ncclCommDestroy", 0) == 1);
  CHECK(ranks.library->count("ncclCommDestroy", 1) == 1);
  CHECK(ranks.library->count("ncclCommAbort", 0) == 0);
}

TEST_CASE("a shard may lie in its place in the output, and nowhere else there", "[nccl]") {
  nccl_ranks ranks(1, {.patience = endless});
  const memory_block bytes(*ranks.gpus[0], memory_kind::device, 64);
  stream queue(*ranks.gpus[0], "gathers");
  const auto gather = [&](std::size_t from) {
    ranks.ends[0]->all_gather(queue.id(), bytes.bytes().first(32), bytes.bytes().subspan(from, 32),
                              {.what = "gather"});
  };

  CHECK_THROWS_WITH(gather(16), Contains("overlaps the output"));
  CHECK_NOTHROW(gather(32));
  CHECK_NOTHROW(gather(0));
  queue.synchronize(contract_edge);
  CHECK_FALSE(ranks.ends[0]->asynchronous_failure());
}

// Joining

TEST_CASE("ranks with different versions of NCCL all refuse with the same words", "[nccl]") {
  nccl_ranks ranks(3);
  ranks.tables[1] = &ranks.library->older_library();

  for (const auto& joined : ranks.join({.patience = endless})) {
    REQUIRE_FALSE(joined);
    CHECK(joined.error() == failure{.code = errc::unsupported,
                                    .detail = "rank 1 has NCCL 2.21.5 and rank 0 has 2.28.9; all "
                                              "ranks need the same version",
                                    .rank = 1});
  }
  CHECK(ranks.library->calls().empty());
}

TEST_CASE("ranks on one GPU all refuse with the same words", "[nccl]") {
  nccl_ranks ranks(3);
  ranks.gpus[2] = std::make_unique<host_gpu>(0, gpu_memory, ranks.library);

  for (const auto& joined : ranks.join({.patience = endless})) {
    REQUIRE_FALSE(joined);
    CHECK(joined.error() == failure{.code = errc::unsupported,
                                    .detail = "rank 0 and rank 2 are both on GPU 0000:00:00.0 of "
                                              "one machine; each rank needs a GPU of its own",
                                    .rank = 2});
  }
  CHECK(ranks.library->calls().empty());
}

TEST_CASE("a rank whose NCCL will not do fails all ranks with its cause", "[nccl]") {
  nccl_ranks ranks(2);
  ranks.tables[1] = &ranks.library->oldest_library();

  for (const auto& joined : ranks.join({.patience = endless})) {
    REQUIRE_FALSE(joined);
    CHECK_THAT(joined.error().detail, Contains("NCCL is of version 2.13.4"));
    CHECK(joined.error().rank == 1);
  }
}

TEST_CASE("ranks that NCCL does not connect in time all give up and close", "[nccl]") {
  const auto* const call = GENERATE("ncclCommInitRankConfig", "ncclAllGather");
  CAPTURE(call);
  nccl_ranks ranks(2);
  ranks.library->stall(call, 1);

  const auto joined = ranks.join({.patience = endless, .to_join = 300ms});

  for (const auto& each : joined) {
    REQUIRE_FALSE(each);
    CHECK(each.error().code == errc::deadline_exceeded);
    CHECK_THAT(each.error().detail,
               Contains("is still in progress") || Contains("collective 0 did not end"));
  }
  CHECK(joined[0] == joined[1]);
  close(ranks);
  CHECK(ranks.library->count("ncclCommAbort", 0) == 1);
  CHECK(ranks.library->count("ncclCommAbort", 1) == 1);
}

TEST_CASE("ranks that all wait for NCCL in their first gather give up once joining takes too long",
          "[nccl]") {
  nccl_ranks ranks(2);
  ranks.library->stall("ncclAllGather", 0);
  ranks.library->stall("ncclAllGather", 1);
  const auto begin = clock::now();

  const auto joined = ranks.join({.patience = endless, .to_join = 300ms});

  CHECK(clock::now() - begin < 5s);
  for (const auto& each : joined) {
    REQUIRE_FALSE(each);
    CHECK(each.error().code == errc::deadline_exceeded);
    CHECK_THAT(each.error().detail, Contains("collective 0 did not end on rank "));
  }
  CHECK(joined[0] == joined[1]);
  close(ranks);
}

TEST_CASE("no rank has joined unless all have gathered", "[nccl]") {
  nccl_ranks ranks(2);
  ranks.gpus[1]->reach_only(1); // Where its gather begins.

  const auto joined = ranks.join({.patience = endless, .to_join = 300ms});

  for (const auto& each : joined) {
    REQUIRE_FALSE(each);
    CHECK(each.error().code == errc::deadline_exceeded);
  }
  CHECK(joined[0] == joined[1]);
  close(ranks);
}

TEST_CASE("memory that an abort of NCCL may still use stays until the device goes", "[nccl]") {
  nccl_ranks ranks(1);
  ranks.library->stall("ncclAllGather", 0);
  ranks.library->hang("ncclCommAbort", 0);

  const auto joined = ranks.join({.patience = endless, .to_join = 100ms});

  REQUIRE_FALSE(joined[0]);
  const auto& device = *ranks.gpus[0];
  CHECK(device.counters().device_bytes != 0);
  CHECK(device.counters().streams == 1);
  ranks.library->resume();
  ranks.gpus[0].reset();
  CHECK(ranks.library->open_comms() == 0);
}

TEST_CASE("NCCL may take longer to connect than ranks are given for a collective", "[nccl]") {
  nccl_ranks ranks(2);
  for (const auto rank : {0, 1})
    ranks.library->delay("ncclAllGather", rank, 100); // Polls 5 ms apart, mostly.

  for (const auto& joined : ranks.join({.patience = 20ms, .to_join = endless}))
    CHECK(joined);
}

TEST_CASE("ranks refuse an environment that makes NCCL wait", "[nccl]") {
  nccl_ranks ranks(2);
  ::setenv("NCCL_COMM_BLOCKING", "1", 1);

  const auto joined = ranks.join({.patience = endless});

  ::unsetenv("NCCL_COMM_BLOCKING");
  for (const auto& each : joined) {
    REQUIRE_FALSE(each);
    CHECK(each.error().code == errc::unsupported);
    CHECK_THAT(each.error().detail, Contains("NCCL_COMM_BLOCKING is '1'"));
  }
  CHECK(ranks.library->calls().empty());
}

TEST_CASE("an environment that tells NCCL not to wait is accepted", "[nccl]") {
  ::setenv("NCCL_COMM_BLOCKING", "0", 1);
  nccl_ranks ranks(1);

  const auto joined = ranks.join({.patience = endless});

  ::unsetenv("NCCL_COMM_BLOCKING");
  CHECK(joined[0]);
}

TEST_CASE("ranks on GPUs whose address is not known may join", "[nccl]") {
  nccl_ranks ranks(2);
  for (auto& gpu : ranks.gpus)
    gpu->hide_bus_id();

  for (const auto& joined : ranks.join({.patience = endless}))
    CHECK(joined);
}

// Collectives

TEST_CASE("a collective that NCCL never enqueues ends with the patience of the ranks", "[nccl]") {
  nccl_ranks ranks(2, {.patience = 300ms});
  ranks.library->stall("ncclAllGather", 1);
  auto other = std::async(std::launch::async, [&] { return gathering(ranks, 0).gather(); });

  const auto failed = gathering(ranks, 1).gather();

  REQUIRE(failed);
  CHECK(failed->code == errc::transfer_aborted);
  CHECK(other.get());
  for (const auto& end : ranks.ends) {
    CHECK(end->asynchronous_failure()->code == errc::deadline_exceeded);
    CHECK_THAT(end->asynchronous_failure()->detail, Contains("collective 1 did not end"));
  }
}

TEST_CASE("what NCCL finds wrong by itself fails the group with its words", "[nccl]") {
  nccl_ranks ranks(2, {.patience = endless});
  ranks.library->say("NET/IB : got completion with error 12");
  gathering waiting(ranks, 0);
  waiting.start();

  ranks.library->break_off(1, ncclRemoteError);

  const auto cause = soon_failed(*ranks.ends[0]);
  waiting.finish();
  REQUIRE(cause);
  CHECK(cause->code == errc::transfer_aborted);
  CHECK(cause->rank == 1);
  CHECK(cause->vendor_code == ncclRemoteError);
  CHECK_THAT(cause->detail, Contains("ncclRemoteError") && Contains("completion with error 12"));
  CHECK(ranks.ends[1]->asynchronous_failure() == cause);
}

TEST_CASE("NCCL that breaks on a rank which waits for another is known at once", "[nccl]") {
  nccl_ranks ranks(2, {.patience = endless});
  gathering waiting(ranks, 0);
  waiting.start();
  std::this_thread::sleep_for(50ms); // It has found rank 1 missing.

  ranks.library->break_off(0, ncclSystemError);

  const auto cause = soon_failed(*ranks.ends[1]);
  waiting.finish();
  REQUIRE(cause);
  CHECK(cause->rank == 0);
  CHECK(cause->vendor_code == ncclSystemError);
}

TEST_CASE("a rank that does not come to a collective is named by those that wait", "[nccl]") {
  nccl_ranks ranks(3, {.patience = 200ms, .to_join = endless});
  auto other = std::async(std::launch::async, [&] { return gathering(ranks, 2).gather(); });

  const auto failed = gathering(ranks, 0).gather();

  REQUIRE(failed);
  CHECK(failed->code == errc::deadline_exceeded);
  CHECK_THAT(failed->detail, Contains("rank 1 ") && !Contains("rank 2"));
  CHECK(other.get() == failed);
}

TEST_CASE("an unexpected end of the thread that watches fails the group with its reason",
          "[nccl]") {
  static std::atomic<bool> broken;
  static decltype(&::ncclCommGetAsyncError) ask;
  nccl_ranks ranks(2);
  auto library = ranks.library->library();
  broken = false;
  ask = library.ncclCommGetAsyncError;
  library.ncclCommGetAsyncError = [](ncclComm_t comm, ncclResult_t* state) {
    if (broken)
      throw std::runtime_error("no memory for a string");
    return ask(comm, state);
  };
  ranks.tables[1] = &library;
  for (auto& joined : ranks.join({.patience = endless}))
    ranks.ends.push_back(std::move(joined.value()));

  broken = true;

  const auto cause = soon_failed(*ranks.ends[0]);
  REQUIRE(cause);
  CHECK(cause->code == errc::internal);
  CHECK(cause->rank == 1);
  CHECK_THAT(cause->detail, Contains("no memory for a string"));
  close(ranks);
}

TEST_CASE("the process of a rank that is killed is missed at once, also between collectives",
          "[nccl]") {
  const auto in_a_collective = GENERATE(false, true);
  CAPTURE(in_a_collective);
  other_process first;
  nccl_ranks ranks(2);
  ranks.selves[1] = first.identity();
  for (auto& joined : ranks.join({.patience = endless}))
    ranks.ends.push_back(std::move(joined.value()));
  gathering waiting(ranks, 0);
  if (in_a_collective)
    waiting.start();

  first.kill();

  const auto cause = soon_failed(*ranks.ends[0]);
  waiting.finish();
  REQUIRE(cause);
  CHECK(cause->code == errc::transfer_aborted);
  CHECK_THAT(cause->detail, Contains("the process of rank 1 has ended"));
  CHECK(cause->rank == 1);
}

TEST_CASE("a rank that is killed after it has left is missed by a collective that does not end",
          "[nccl]") {
  other_process killed;
  nccl_ranks ranks(2);
  ranks.selves[1] = killed.identity();
  for (auto& joined : ranks.join({.patience = endless}))
    ranks.ends.push_back(std::move(joined.value()));
  ranks.library->stall("ncclAllGather", 0);
  auto waiting = std::async(std::launch::async, [&] { return gathering(ranks, 0).gather(); });
  gathering own(ranks, 1);
  own.start();
  ranks.ends[1].reset();

  killed.kill();

  const auto cause = soon_failed(*ranks.ends[0]);
  REQUIRE(cause);
  CHECK(cause->code == errc::transfer_aborted);
  CHECK(cause->rank == 1);
  CHECK_THAT(cause->detail, Contains("the process of rank 1 has ended"));
  CHECK(waiting.get());
  own.finish();
}

TEST_CASE("a death is the cause, not what NCCL says because of it", "[nccl]") {
  other_process killed;
  nccl_ranks ranks(2);
  ranks.selves[1] = killed.identity();
  for (auto& joined : ranks.join({.patience = endless}))
    ranks.ends.push_back(std::move(joined.value()));

  ranks.library->break_off(0, ncclRemoteError);
  std::this_thread::sleep_for(50ms);
  killed.kill();

  const auto cause = soon_failed(*ranks.ends[0]);
  REQUIRE(cause);
  CHECK_THAT(cause->detail, Contains("the process of rank 1 has ended"));
}

TEST_CASE("of causes that threads of all ranks give at once one is kept by all", "[nccl]") {
  nccl_ranks ranks(2, {.patience = endless});
  gathering waiting(ranks, 0);
  waiting.start();
  std::vector<std::thread> threads;

  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      ranks.ends[static_cast<std::size_t>(i % 2)]->abort(
          {.code = errc::io_failure, .detail = "cause " + std::to_string(i)});
    });
  for (auto& thread : threads)
    thread.join();
  waiting.finish();

  const auto cause = ranks.ends[0]->asynchronous_failure();
  REQUIRE(cause);
  CHECK(cause->rank == cause->detail.back() % 2);
  CHECK(ranks.ends[1]->asynchronous_failure() == cause);
  CHECK(ranks.library->count("ncclCommAbort", 0) == 1);
}

// Ends

TEST_CASE("an end whose finalize never finishes is aborted and holds up nobody", "[nccl]") {
  nccl_ranks ranks(2, {.patience = endless});
  ranks.library->stall("ncclCommFinalize", 0);
  const auto before = clock::now();
  ranks.ends[0].reset();
  CHECK(clock::now() - before < 1s);

  ranks.gpus[0].reset();

  CHECK(ranks.library->count("ncclCommAbort", 0) == 1);
  CHECK(ranks.library->count("ncclCommDestroy", 0) == 0);
  CHECK_FALSE(ranks.ends[1]->asynchronous_failure());
}

TEST_CASE("a group that fails while an end is finalized is aborted at once", "[nccl]") {
  nccl_ranks ranks(2, {.patience = endless});
  ranks.library->stall("ncclCommFinalize", 0);
  ranks.ends[0].reset();
  const auto begin = clock::now();
  while (ranks.library->count("ncclCommFinalize", 0) == 0)
    std::this_thread::sleep_for(1ms);

  ranks.ends[1]->abort(disk_full);

  while (ranks.library->count("ncclCommAbort", 0) == 0 && clock::now() - begin < 10s)
    std::this_thread::sleep_for(1ms);
  CHECK(clock::now() - begin < 3s);
}

TEST_CASE("a device that goes first lets a collective end that other ranks come to", "[nccl]") {
  nccl_ranks ranks(2, {.patience = endless});
  auto& gpu = *ranks.gpus[0];
  const auto output = gpu.allocate(memory_kind::device, 128);
  const auto shard = gpu.allocate(memory_kind::device, 64);
  ranks.ends[0]->all_gather(gpu.create_stream("gathers"), output, shard,
                            {.what = "gather", .block = 0});
  auto going = std::async(std::launch::async, [&] { ranks.gpus[0].reset(); });
  while (going.wait_for(100ms) == std::future_status::ready)
    FAIL("the device has not waited");

  const auto failed = gathering(ranks, 1).gather();

  going.get();
  CHECK_FALSE(failed);
  CHECK(ranks.library->count("ncclCommDestroy", 0) == 1);
}

TEST_CASE("a driver that is shutting down closes everything, any other failure is logged",
          "[nccl]") {
  const auto shutting_down = GENERATE(false, true);
  nccl_ranks ranks(1, {.patience = endless});
  ranks.library->say(shutting_down ? "Cuda failure 'driver shutting down'" : "out of file handles");
  ranks.library->fail("ncclCommDestroy", 0, 1, ncclUnhandledCudaError);

  const auto logged = standard_error_of([&] { close(ranks); });

  CHECK((logged.find("ncclCommDestroy") == std::string::npos) == shutting_down);
}

#ifndef __SANITIZE_THREAD__ // Which ends a process that forks beside threads.
TEST_CASE("a process that was forked can use no end of its parent's, and destroy it", "[nccl]") {
  nccl_ranks ranks(1, {.patience = endless});
  std::array<std::byte, 1> bytes{};

  const auto child = ::fork();
  if (child == 0) {
    auto refused = false;
    try {
      ranks.ends[0]->all_gather(stream_id{1}, bytes, bytes, {});
    } catch (const device_error& error) {
      refused = error.reason().detail.find("forked") != std::string::npos;
    }
    ranks.ends.clear();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);

  CHECK(status == 0);
  CHECK_FALSE(gathering(ranks, 0).gather());
}
#endif

// Field cases

TEST_CASE("a rank that fails before a gather ends it for all at once, and every later one",
          "[nccl][B99]") {
  nccl_ranks ranks(2, {.patience = endless});
  const auto begin = clock::now();
  auto other = std::async(std::launch::async, [&] {
    gathering own(ranks, 1);
    for (std::uint32_t i = 0; i < 4; ++i)
      (void)own.gather(i);
    ranks.ends[1]->abort({.code = errc::out_of_device_memory, .detail = "no room for 4 GiB"});
  });
  gathering own(ranks, 0);
  std::optional<failure> failed;

  for (std::uint32_t i = 0; i < 5; ++i)
    failed = own.gather(i);

  CHECK(clock::now() - begin < 2s);
  REQUIRE(failed);
  const auto cause = ranks.ends[0]->asynchronous_failure();
  CHECK(cause->code == errc::out_of_device_memory);
  CHECK(cause->rank == 1);
  CHECK_THAT(own.gather(5)->detail,
             Contains("the group has failed") && Contains("no room for 4 GiB"));
  other.get();
  own.finish();
  ranks.ends.clear();
  ranks.gpus[1].reset();
  CHECK(clock::now() - begin < 5s);
}

TEST_CASE("an abort of NCCL that never returns holds up no end, and its device not for long",
          "[nccl][B100]") {
  nccl_ranks ranks(1, {.patience = endless});
  ranks.library->hang("ncclCommAbort", 0);
  ranks.ends[0]->abort(disk_full);

  const auto before = clock::now();
  ranks.ends.clear();
  CHECK(clock::now() - before < 1s);
  const auto logged = standard_error_of([&] { ranks.gpus[0].reset(); });

  CHECK(clock::now() - before < 10s);
  CHECK_THAT(logged, Contains("give up on closing communicator rank=0"));
  ranks.library->resume();
  while (ranks.library->open_comms() != 0)
    std::this_thread::sleep_for(1ms);
}

TEST_CASE("all groups of a process end when a peer is killed, although the abort of one hangs",
          "[nccl][B102]") {
  other_process killed;
  nccl_ranks ranks(2);
  ranks.selves[1] = killed.identity();
  for (const auto* name : {"weights", "activations"})
    for (auto& joined : ranks.join({.name = name, .patience = endless}))
      ranks.ends.push_back(std::move(joined.value()));
  const auto& weights = *ranks.ends[0];
  const auto& activations = *ranks.ends[2];
  const auto begin = clock::now();
  ranks.library->hang("ncclCommAbort", 0, 1);
  {
    gathering mid_gather(ranks, 0);
    mid_gather.start();

    killed.kill();

    for (const auto* end : {&weights, &activations})
      CHECK_THAT(soon_failed(*end)->detail, Contains("the process of rank 1 has ended"));
    mid_gather.finish();
  }
  ranks.ends.clear();
  ranks.gpus[0].reset();

  CHECK(clock::now() - begin < 10s);
  CHECK(ranks.library->count("ncclCommAbort", 0) == 1);
  ranks.library->resume();
  while (ranks.library->open_comms() != 0)
    std::this_thread::sleep_for(1ms);
}

// Machines

TEST_CASE("a failure on one machine fails the ranks of the others with its cause", "[nccl]") {
  const auto failing = GENERATE(0, 2);
  CAPTURE(failing);
  nccl_ranks ranks(3);
  ranks.selves[2].place = "another-machine/pid:[1]";
  for (auto& joined : ranks.join({.patience = endless}))
    ranks.ends.push_back(std::move(joined.value()));
  std::vector<std::future<std::optional<failure>>> gathered;
  for (std::size_t rank = 0; rank < 3; ++rank)
    gathered.push_back(
        std::async(std::launch::async, [&, rank] { return gathering(ranks, rank).gather(); }));
  for (auto& each : gathered)
    CHECK_FALSE(each.get());

  ranks.ends[static_cast<std::size_t>(failing)]->abort(disk_full);

  for (const auto& end : ranks.ends) {
    const auto cause = soon_failed(*end);
    REQUIRE(cause);
    CHECK(cause->detail == "the disk is full");
    CHECK(cause->rank == failing);
  }
}

TEST_CASE("a failure on another machine ends a wait for a rank of one's own", "[nccl]") {
  nccl_ranks ranks(3);
  ranks.selves[2].place = "another-machine/pid:[1]";
  for (auto& joined : ranks.join({.patience = endless}))
    ranks.ends.push_back(std::move(joined.value()));
  gathering waiting(ranks, 0);
  waiting.start();
  std::this_thread::sleep_for(50ms); // It has found rank 1 missing.

  ranks.ends[2]->abort(disk_full);

  const auto cause = soon_failed(*ranks.ends[0]);
  waiting.finish();
  REQUIRE(cause);
  CHECK(cause->detail == "the disk is full");
  CHECK(cause->rank == 2);
}

TEST_CASE("what NCCL finds wrong on one machine is told to the others", "[nccl]") {
  nccl_ranks ranks(2);
  ranks.selves[1].place = "another-machine/pid:[1]";
  for (auto& joined : ranks.join({.patience = endless}))
    ranks.ends.push_back(std::move(joined.value()));

  ranks.library->break_off(0, ncclSystemError);

  const auto cause = soon_failed(*ranks.ends[1]);
  REQUIRE(cause);
  CHECK(cause->rank == 0);
  CHECK(cause->vendor_code == ncclSystemError);
}

TEST_CASE("ranks of containers on one machine may not have one GPU", "[nccl]") {
  nccl_ranks ranks(2);
  const auto& place = ranks.selves[0].place;
  ranks.selves[1].place = place.substr(0, place.find('/')) + "/pid:[1]";
  ranks.gpus[1] = std::make_unique<host_gpu>(0, gpu_memory, ranks.library);

  for (const auto& joined : ranks.join({.patience = endless})) {
    REQUIRE_FALSE(joined);
    CHECK_THAT(joined.error().detail, Contains("both on GPU"));
  }
}

// Sweeps

/// One life of two ranks: join, gather twice, leave.
struct life {
  std::vector<failure> causes; ///< Of each rank that failed.
  bool joined = true;
};

life live(nccl_ranks& ranks) {
  life lived;
  for (auto& joined : ranks.join({.patience = endless})) {
    if (!joined)
      lived.causes.push_back(joined.error());
    else
      ranks.ends.push_back(std::move(*joined));
  }
  lived.joined = lived.causes.empty();
  if (lived.joined) {
    auto other = std::async(std::launch::async, [&] {
      gathering own(ranks, 1);
      return own.gather().has_value() || own.gather().has_value();
    });
    gathering own(ranks, 0);
    const auto failed = own.gather().has_value() || own.gather().has_value();
    if (other.get() || failed)
      for (const auto& end : ranks.ends)
        lived.causes.push_back(*soon_failed(*end));
  }
  close(ranks);
  return lived;
}

/// Whether a life may be over when the failure of a call is known.
bool may_fail_late(std::string_view call) {
  return call == "ncclCommFinalize" || call == "ncclCommDestroy" || call == "ncclCommGetAsyncError";
}

TEST_CASE("whichever call of NCCL fails, both ranks end with that cause and nothing is left",
          "[nccl]") {
  const auto* const call =
      GENERATE("ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRankConfig",
               "ncclCommGetAsyncError", "ncclAllGather", "ncclCommFinalize", "ncclCommDestroy");
  const auto rank = GENERATE(0, 1);
  for (int nth = 1; nth <= 4; ++nth) {
    CAPTURE(call, rank, nth);
    nccl_ranks ranks(2);
    ranks.library->fail(call, rank, nth, ncclInternalError);

    const auto lived = live(ranks);

    if (!ranks.library->has_failed())
      break;
    const auto failed_late = lived.causes.empty();
    if (failed_late)
      CHECK(may_fail_late(call));
    else
      CHECK(lived.causes.size() == 2);
    for (const auto& cause : lived.causes) {
      CHECK(cause == lived.causes.front());
      CHECK_THAT(cause.detail, Contains("ncclInternalError"));
      CHECK(cause.vendor_code == ncclInternalError);
      if (std::string_view(call) != "ncclGetVersion") // Which names no rank.
        CHECK(cause.rank == rank);
    }
  }
}

TEST_CASE("an abort at any moment of a life ends both ranks and leaves nothing", "[nccl]") {
  for (int after = 0; after < 12; ++after) {
    CAPTURE(after);
    nccl_ranks ranks(2, {.patience = endless});
    auto other = std::async(std::launch::async, [&] {
      gathering own(ranks, 1);
      while (!own.gather())
        ;
    });
    {
      gathering own(ranks, 0);
      for (int i = 0; i < after; ++i)
        own.start();
      ranks.ends[0]->abort(disk_full);
      own.finish();
    }
    other.get();

    for (const auto& end : ranks.ends)
      CHECK(end->asynchronous_failure()->detail == "the disk is full");
    close(ranks);
  }
}

} // namespace
} // namespace ferry::test
