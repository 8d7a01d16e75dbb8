// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// One rank as a process, for tests: joins the others, gathers some rounds in each of two groups and
// leaves.
//   rank_process <directory> <rank> <size> <patience in meetings> <patience in gathers> <mishap>
//   <when>
// Patience is in milliseconds.
// Prints the failure that ended it and exits with 1, or with 0 after bytes that were all right.
// With 5 if something of it is left in the process then.

#include <ferry/platform/error.hpp>
#include <ferry/platform/host_communicator.hpp>
#include <ferry/platform/rendezvous.hpp>

#include "contract/communicator_rig.hpp"
#include "support/directory_store.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace ferry;
using namespace ferry::test;
namespace fs = std::filesystem;

namespace {

constexpr std::uint32_t rounds = 20;
constexpr std::size_t shard_bytes = 10'000;

/// Kills the process at one of its calls.
class deadly_store final : public key_value_store {
public:
  deadly_store(std::string directory, long lethal_call)
      : inner_(std::move(directory)), calls_left_(lethal_call) {}

  void make_harmless() { calls_left_ = 0; }

  bool hosted_here() const noexcept override { return inner_.hosted_here(); }

  bool offer(const std::string& key, const_bytes value) override {
    count();
    return inner_.offer(key, value);
  }
  bool await(std::span<const std::string> keys, nanoseconds patience) override {
    count();
    return inner_.await(keys, patience);
  }
  std::vector<std::byte> read(const std::string& key) override {
    count();
    return inner_.read(key);
  }

private:
  void count() {
    if (calls_left_ > 0 && --calls_left_ == 0)
      std::raise(SIGKILL);
  }

  directory_store inner_;
  long calls_left_;
};

int fail(const failure& cause) {
  std::puts(describe(cause).c_str());
  return 1;
}

/// One of the groups that a rank is in.
struct membership {
  membership(host_device& gpu, std::unique_ptr<communicator> joined)
      : end(std::move(joined)), work(gpu, *end, shard_bytes) {}

  std::unique_ptr<communicator> end;
  rank_at_work work;
};

/// Returns whether a rank's process has ended, which ends all of its groups.
bool died(const failure& cause) {
  return cause.detail.find("has ended") != std::string::npos;
}

/// Returns whether the group learns in time that it has failed.
bool fails_too(const membership& other) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!other.end->asynchronous_failure()) {
    if (std::chrono::steady_clock::now() > deadline)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Returns the cause if the group has failed.
std::optional<failure> gather(membership& own, std::uint32_t round, bool learns_late = false) {
  try {
    own.work.play(round);
    own.work.finish();
    if (learns_late)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
  } catch (const device_error& error) {
    if (error.code() != errc::transfer_aborted)
      return error.reason();
  }
  return own.end->asynchronous_failure();
}

void befall(const std::string& mishap, membership& weights, std::uint32_t round) {
  auto& own = weights.work;
  if (mishap == "abort")
    weights.end->abort({.code = errc::io_failure, .detail = "the disk is full"});
  if (mishap == "stop")
    std::raise(SIGSTOP);
  if (mishap == "die in a gather" || mishap == "die behind its part") {
    own.play(round);
    if (mishap == "die behind its part")
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::raise(SIGKILL);
  }
  if (mishap == "leave behind gathers and die") {
    for (auto next = round; next != rounds; ++next)
      own.play(next);
    weights.end.reset();
    std::raise(SIGKILL);
  }
}

/// What an operating system holds for this process.
struct holdings {
  std::size_t threads = 0;
  std::size_t descriptors = 0;
  std::size_t shared_mappings = 0;

  friend bool operator==(const holdings&, const holdings&) = default;
};

std::size_t entries_of(const char* directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), {}));
}

holdings own_holdings() {
  holdings own{.threads = entries_of("/proc/self/task"),
               .descriptors = entries_of("/proc/self/fd")};
  std::ifstream mappings("/proc/self/maps");
  for (std::string line; std::getline(mappings, line);)
    own.shared_mappings += line.find("/memfd:") != std::string::npos ? 1U : 0U;
  return own;
}

/// A thread that has been joined may be seen for a moment longer.
bool only_has(const holdings& before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (own_holdings() != before) {
    if (std::chrono::steady_clock::now() > deadline)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

int take_part(char** words) {
  const auto rank = std::atoi(words[2]);
  const auto size = std::atoi(words[3]);
  const auto meeting_patience = std::chrono::milliseconds(std::atol(words[4]));
  const auto gather_patience = std::chrono::milliseconds(std::atol(words[5]));
  const auto mishap = std::string(words[6]);
  const auto when = std::atol(words[7]);

  const auto store =
      std::make_shared<deadly_store>(words[1], mishap == "die at a store call" ? when : 0);
  auto meeting = join_rendezvous(store, rank, size, meeting_patience);
  if (!meeting)
    return fail(meeting.error());
  auto gpu = host_device(host_device_options{.memory = std::size_t{64} << 20});
  std::vector<std::unique_ptr<membership>> groups;
  for (const auto* name : {"weights", "activations"}) {
    auto joined = join_process_communicator(gpu, **meeting, name, gather_patience);
    if (!joined)
      return fail(joined.error());
    groups.push_back(std::make_unique<membership>(gpu, std::move(*joined)));
  }
  store->make_harmless();

  auto& weights = *groups[0];
  auto& activations = *groups[1];
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (round == when)
      befall(mishap, weights, round);
    if (const auto cause = gather(weights, round))
      return !died(*cause) || fails_too(activations) ? fail(*cause) : 4;
    const auto learns_late = mishap == "learn late" && round + 1 == when;
    if (const auto cause = gather(activations, round, learns_late))
      return fail(*cause);
    if (!weights.work.right(round) || !activations.work.right(round))
      return 3;
  }
  const auto met = (*meeting)->meet("end", {}, meeting_patience);
  return met ? 0 : fail(met.error());
}

} // namespace

int main(int count, char** words) {
  if (count != 8)
    return 2;
  std::thread([] {}).join(); // A sanitizer starts a thread of its own beside the first one.
  const auto before = own_holdings();
  const auto code = take_part(words);
  return only_has(before) ? code : 5;
}
