// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// One rank on the GPU of its number as a process, for tests: joins the others through NCCL, gathers
// some rounds and leaves.
//   gpu_rank_process <directory> <rank> <size> <round in which it is killed, -1 for none>
// Prints the failure that ended it and exits with 1, or with 0 after bytes that were all right.

#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/nccl_communicator.hpp>
#include <ferry/platform/rendezvous.hpp>

#include "contract/communicator_rig.hpp"
#include "support/directory_store.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

namespace {

using namespace ferry;

constexpr std::uint32_t rounds = 20;
constexpr std::size_t shard_bytes = 1'000'000;
constexpr auto patience = std::chrono::minutes(5);

int fail(const failure& cause) {
  std::puts(describe(cause).c_str());
  return 1;
}

/// Returns the cause if the group has failed.
std::optional<failure> gather(test::rank_at_work& own, const communicator& end,
                              std::uint32_t round) {
  try {
    own.play(round);
    own.finish();
  } catch (const device_error& error) {
    if (error.code() != errc::transfer_aborted)
      return error.reason();
  }
  return end.asynchronous_failure();
}

int take_part(char** words) {
  const auto rank = std::atoi(words[2]);
  const auto dies_in = std::atoi(words[4]);
  auto meeting = join_rendezvous(std::make_shared<test::directory_store>(words[1]), rank,
                                 std::atoi(words[3]), patience);
  if (!meeting)
    return fail(meeting.error());
  const auto gpu = open_cuda_device({.index = rank});
  if (!gpu)
    return fail(gpu.error());
  const std::shared_ptr<rendezvous> met = std::move(*meeting);
  const auto end = open_nccl_communicator(**gpu, met, {.patience = patience});
  if (!end)
    return fail(end.error());
  test::rank_at_work own(**gpu, **end, shard_bytes);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (static_cast<int>(round) == dies_in) {
      own.play(round);
      std::raise(SIGKILL);
    }
    if (const auto cause = gather(own, **end, round))
      return fail(*cause);
    if (!own.right(round))
      return 3;
  }
  const auto all_done = met->meet("end", {}, patience);
  return all_done ? 0 : fail(all_done.error());
}

} // namespace

int main(int count, char** words) {
  return count == 5 ? take_part(words) : 2;
}
