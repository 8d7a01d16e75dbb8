// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/host_communicator.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "contract/communicator_rig.hpp"
#include "contract/device_rig.hpp"
#include "host/exchange.hpp"
#include "support/catch.hpp"
#include "support/child_processes.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ferry::test {
namespace {

using Catch::Contains;

constexpr nanoseconds endless = std::chrono::minutes(5);

struct two_hosts {
  two_hosts() { ends = make_host_communicators(std::array{&first, &second}, endless); }

  host_device first{host_device_options{.memory = std::size_t{64} << 20}};
  host_device second{host_device_options{.memory = std::size_t{64} << 20}};
  std::vector<std::unique_ptr<communicator>> ends;
};

/// Says which of the mapped files of this process are shared by ranks.
std::vector<std::string> shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::vector<std::string> found;
  for (std::string line; std::getline(maps, line);)
    if (line.find("ferry (deleted)") != std::string::npos)
      found.push_back(line.substr(line.find('/')));
  return found;
}

/// Plays rank 1 of two: introduces itself as `process` with no memory to share, and waits.
std::future<void> introduce_as(rendezvous& end, const process_identity& process) {
  return std::async(std::launch::async, [&end, text = "-1 " + to_text(process)] {
    (void)end.meet("weights/join", as_contribution(text), endless);
    (void)end.meet("weights/mapped", {}, endless);
  });
}

/// Returns who a process was that has ended.
process_identity ended_process() {
  child_processes children;
  children.start({"/bin/cat", "/proc/self/stat"});
  auto process = this_process();
  process.id = static_cast<::pid_t>(std::stol(children.wait(0).out));
  return process;
}

TEST_CASE("a collective is reported as a span of its stream with what it brought", "[host]") {
  two_hosts hosts;
  recording_observer observer;
  hosts.first.attach(observer);
  auto other = std::async(std::launch::async, [&] {
    auto own = rank_at_work(hosts.second, *hosts.ends[1], 100);
    own.gather(5);
    own.finish();
  });

  auto own = rank_at_work(hosts.first, *hosts.ends[0], 100);
  own.gather(5);
  own.finish();
  hosts.first.detach(observer);
  other.get();

  const auto spans = observer.spans_of(operation_kind::gather);
  REQUIRE(spans.size() == 1);
  CHECK(spans.front().bytes == 100);
  CHECK(spans.front().tag.block == 5);
  CHECK(spans.front().stream == own.queue().id());
}

TEST_CASE("collectives on several streams run in the order of the calls", "[host]") {
  two_hosts hosts;
  stream early(hosts.first, "early");
  stream late(hosts.first, "late");
  std::array<std::byte, 1> shard{std::byte{1}};
  std::array<std::byte, 2> output{};
  const auto gather = [&](stream& on, std::uint32_t block) {
    hosts.ends[0]->all_gather(on.id(), output, shard, {.what = "gather", .block = block});
  };
  gather(early, 0);
  gather(late, 1);
  gather(early, 2);

  auto own = rank_at_work(hosts.second, *hosts.ends[1], 1);
  own.gather(0);
  own.gather(1);
  own.gather(2);
  own.finish();
  late.synchronize(contract_edge);
  early.synchronize(contract_edge);

  CHECK_FALSE(hosts.ends[0]->asynchronous_failure());
}

class broken_observer final : public operation_observer {
public:
  void on_operation(const operation_span&) override { throw std::runtime_error("disk on fire"); }
  void on_stream(stream_id, std::string_view) override {}
};

TEST_CASE("a rank whose device has failed takes the group with it", "[host]") {
  two_hosts hosts;
  broken_observer observer;
  auto own = rank_at_work(hosts.second, *hosts.ends[1], 64);
  hosts.second.attach(observer);
  const auto play = [&] { // The device fails before or after the gather is enqueued.
    own.play(0);
    own.finish();
  };

  CHECK_THROWS_AS(play(), device_error);
  hosts.second.detach(observer);

  const auto cause = hosts.ends[0]->asynchronous_failure();
  REQUIRE(cause);
  CHECK(cause->code == errc::device_poisoned);
  CHECK(cause->detail.find("disk on fire") != std::string::npos);
  CHECK(cause->rank == 1);
}

TEST_CASE("a rank that could not read its shard tells the others why, and sends nothing",
          "[host]") {
  constexpr std::size_t shard_bytes = 4096;
  two_hosts hosts;
  const scratch_directory directory;
  const auto path = directory.write("weights", std::string(shard_bytes, 'w'));
  const mapped_file file(path);
  std::filesystem::resize_file(path, 1);
  auto other = rank_at_work(hosts.first, *hosts.ends[0], shard_bytes);
  stream copies(hosts.second, "copies");
  stream gathers(hosts.second, "gathers");
  event landed(hosts.second);
  const memory_block shard(hosts.second, memory_kind::device, shard_bytes);
  const memory_block output(hosts.second, memory_kind::device, 2 * shard_bytes);
  std::ranges::fill(other.output().bytes(), std::byte{7});

  copies.copy({.target = shard.bytes(), .source = file.bytes(), .from = memory_kind::mapped});
  copies.record(landed);
  gathers.wait(landed, contract_edge);
  hosts.ends[1]->all_gather(gathers.id(), output.bytes(), shard.bytes(), {.what = "gather"});
  other.gather(0);
  other.finish();
  gathers.drain(contract_edge);

  const auto cause = hosts.ends[0]->asynchronous_failure();
  REQUIRE(cause);
  CHECK(cause->code == errc::io_failure);
  CHECK(cause->rank == 1);
  CHECK_THAT(cause->detail, Contains(path.string()));
  const auto from_second = other.output().bytes().last(shard_bytes);
  CHECK(std::ranges::count(from_second, std::byte{7}) == std::ssize(from_second));
}

TEST_CASE("the memory that ranks share has no name and goes with the last of them", "[host]") {
  auto hosts = std::make_unique<two_hosts>();

  CHECK(shared_mappings() == std::vector<std::string>{"/memfd:ferry (deleted)"});
  hosts.reset();
  CHECK(shared_mappings().empty());
}

TEST_CASE("a rank on another machine is refused by name", "[host][process]") {
  const auto ends = make_memory_rendezvous(2);
  auto elsewhere = this_process();
  elsewhere.place = "elsewhere";
  auto other = introduce_as(*ends[1], elsewhere);
  host_device gpu{host_device_options{.memory = 1 << 20}};

  const auto joined = join_process_communicator(gpu, *ends[0], "weights", endless);
  ends[0]->poison({.code = errc::cancelled, .detail = "over"});
  other.get();

  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == errc::unsupported);
  CHECK(joined.error().rank == 1);
  CHECK_THAT(joined.error().detail, Contains("rank 1 runs on another machine"));
}

TEST_CASE("a process that ended before it could be watched is missed all the same",
          "[host][process]") {
  const auto ends = make_memory_rendezvous(2);
  auto other = introduce_as(*ends[1], ended_process());
  host_device gpu{host_device_options{.memory = 1 << 20}};

  const auto joined = join_process_communicator(gpu, *ends[0], "weights", endless);
  other.get();

  REQUIRE(joined);
  REQUIRE((*joined)->asynchronous_failure());
  CHECK((*joined)->asynchronous_failure()->detail == "the process of rank 1 has ended");
}

TEST_CASE("a rank that cannot map what rank 0 shares fails all", "[host][process]") {
  const auto ends = make_memory_rendezvous(2);
  auto maker = std::async(std::launch::async, [&] {
    const auto text = "999999 " + to_text(this_process());
    (void)ends[0]->meet("weights/join", as_contribution(text), endless);
    return ends[0]->meet("weights/mapped", {}, endless);
  });
  host_device gpu{host_device_options{.memory = 1 << 20}};

  const auto joined = join_process_communicator(gpu, *ends[1], "weights", endless);
  const auto told = maker.get();

  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == errc::unsupported);
  CHECK(joined.error().rank == 1);
  CHECK_THAT(joined.error().detail, Contains("/fd/999999"));
  REQUIRE_FALSE(told);
  CHECK(told.error() == joined.error());
}

TEST_CASE("a process that ends while it reports a failure is the failure", "[host][process]") {
  const auto shared = std::make_shared<shared_memory>(exchange_board::size(2));
  const auto processes = std::array{this_process(), ended_process()};
  auto own = exchange(shared, 0, 2, endless, peer_processes(processes));
  exchange_board(shared->bytes()).head().cause.state = 2;

  const auto cause = own.failed();

  REQUIRE(cause);
  CHECK(cause->detail == "the process of rank 1 has ended");
  CHECK(cause->rank == 1);
}

} // namespace
} // namespace ferry::test
