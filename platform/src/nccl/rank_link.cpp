// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl/rank_link.hpp"

#include "collective_words.hpp"
#include "ferry/platform/log.hpp"
#include "nccl/nccl_check.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>

namespace ferry::nccl {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr nanoseconds shortest_delay = 50us;
constexpr nanoseconds longest_delay = 5ms;
constexpr int polls_without_sleep = 32;  ///< A few microseconds.
constexpr nanoseconds idle_delay = 20ms; ///< While nothing is enqueued.
/// For how long the death of a rank may be unknown when NCCL has noticed it already.
constexpr nanoseconds death_unknown = 250ms;
/// For how long what a rank sent before it ended may be under way.
constexpr nanoseconds death_outlived = 1s;
constexpr nanoseconds patience_to_close = 5s;

std::string in_progress(const char* call, int rank) {
  return std::string(call) + " is still in progress on rank " + std::to_string(rank);
}

} // namespace

rank_link::rank_link(const api& library, cuda_device& device, ncclComm_t comm,
                     std::shared_ptr<peer_group> group, nanoseconds patience)
    : library_(&library), device_(&device), comm_(comm), group_(std::move(group)),
      patience_(patience), rank_(group_->rank()), size_(group_->size()), process_(::getpid()) {}

bool rank_link::forked() const noexcept {
  return ::getpid() != process_;
}

void rank_link::fail(const failure& cause) noexcept {
  if (forked())
    return;
  group_->fail(cause);
  changed_.notify_all();
}

std::optional<failure> rank_link::failed() const {
  if (forked())
    return failure{.code = errc::device_poisoned,
                   .detail = "this process was forked from the one that opened the communicator",
                   .rank = rank_};
  return group_->failed();
}

device_error rank_link::refusal() const {
  return {errc::transfer_aborted, "all_gather", "the group has failed: " + describe(*failed())};
}

std::optional<ncclResult_t> rank_link::state() {
  return comm_.call([&](ncclComm_t comm) {
    auto state = ncclSuccess;
    const auto said = library_->ncclCommGetAsyncError(comm, &state);
    return said == ncclSuccess ? state : said;
  });
}

// Another rank's failure, or its death, may have been the cause of an error.
bool rank_link::settled() {
  const auto said = state();
  if (!said || *said == ncclSuccess || *said == ncclInProgress)
    return said == ncclSuccess;
  const auto deadline = clock::now() + death_unknown;
  while (!group_->failed() && clock::now() < deadline)
    std::this_thread::sleep_for(longest_delay);
  auto cause = failed_call(
      *library_, connected_ ? "asynchronous error of NCCL" : "ncclCommInitRankConfig", *said);
  cause.rank = rank_;
  group_->fail(cause);
  return false;
}

bool rank_link::await_connected(time_point deadline) {
  while (!failed()) {
    if (settled()) {
      connected_ = true;
      return true;
    }
    if (clock::now() >= deadline)
      fail({.code = errc::deadline_exceeded,
            .detail = in_progress("ncclCommInitRankConfig", rank_) + "; not all ranks have come"});
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

bool rank_link::await_idle(time_point deadline) {
  for (;;) {
    auto lock = std::unique_lock(mutex_);
    const auto idle = orders_.empty();
    lock.unlock();
    // Asked after that: the watch drops what a group that has failed had ordered.
    if (failed())
      return false;
    if (idle)
      return true;
    if (clock::now() >= deadline)
      fail({.code = errc::deadline_exceeded, .detail = in_progress("ncclAllGather", rank_)});
    lock.lock();
    changed_.wait_for(lock, 1ms);
  }
}

void rank_link::all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                           operation_tag tag, std::optional<time_point> deadline) {
  if (forked())
    throw refusal();
  const auto lock = std::scoped_lock(issuing_);
  if (failed())
    throw refusal();
  try {
    const auto made = order{.number = next_,
                            .tag = tag,
                            .arrived = some_event(),
                            .done = some_event(),
                            .issued = clock::now(),
                            .deadline = deadline};
    issue(stream, output, shard, made);
    ++next_;
  } catch (const device_error& error) {
    auto reason = error.reason();
    reason.rank = reason.rank.value_or(rank_);
    fail(reason);
    throw;
  }
}

void rank_link::issue(stream_id stream, mutable_bytes output, const_bytes shard,
                      const order& made) {
  group_->plan(made.number, shard.size(), made.tag);
  device_->record(stream, made.arrived);
  {
    const auto lock = std::scoped_lock(mutex_);
    orders_.push_back(made);
  }
  changed_.notify_all();
  // NCCL would do nothing for no bytes; the ranks meet in the watch all the same.
  if (!shard.empty())
    device_->gather(stream, made.tag, output.size() - shard.size(),
                    [&](void* native) { enqueue(native, output, shard); });
  device_->record(stream, made.done);
  const auto lock = std::scoped_lock(mutex_);
  // The watch has dropped it if the group has failed.
  if (!orders_.empty())
    orders_.back().enqueued = true;
}

void rank_link::enqueue(void* native, mutable_bytes output, const_bytes shard) {
  auto said = comm_.call([&](ncclComm_t comm) {
    return library_->ncclAllGather(shard.data(), output.data(), shard.size(), ncclUint8, comm,
                                   static_cast<cudaStream_t>(native));
  });
  // Mostly it takes NCCL less than the shortest sleep.
  for (int polls = 0; said == ncclInProgress && polls < polls_without_sleep; ++polls)
    said = state();
  for (auto delay = shortest_delay; said == ncclInProgress; said = state()) {
    std::this_thread::sleep_for(delay);
    delay = std::min(2 * delay, longest_delay);
  }
  if (!said)
    throw refusal();
  if (const auto done = check(*library_, "ncclAllGather", *said); !done)
    throw device_error(done.error().code, "all_gather", done.error().detail,
                       done.error().vendor_code);
}

void rank_link::leave() noexcept {
  if (forked())
    return;
  group_->leave(next_);
  {
    const auto lock = std::scoped_lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
}

void rank_link::give_up() noexcept {
  given_up_ = true;
  auto lock = std::unique_lock(mutex_);
  const auto owes = !orders_.empty();
  lock.unlock();
  if (owes)
    fail({.code = errc::transfer_aborted,
          .detail = "the device of rank " + std::to_string(rank_) +
                    " was closed before the end of its collectives"});
}

bool rank_link::abandon() noexcept {
  const auto lock = std::scoped_lock(mutex_);
  abandoned_ = true;
  return !finished_;
}

bool rank_link::await_finished(time_point deadline) {
  auto lock = std::unique_lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return finished(); });
}

event_id rank_link::some_event() {
  const auto lock = std::scoped_lock(mutex_);
  if (free_.empty()) {
    events_.push_back(device_->create_event());
    return events_.back();
  }
  const auto free = free_.back();
  free_.pop_back();
  return free;
}

void rank_link::watch_to_the_end() {
  try {
    while (watch_on())
      pause();
  } catch (const ferry_error& error) {
    auto reason = error.reason();
    reason.rank = reason.rank.value_or(rank_);
    group_->fail(reason);
  } catch (const std::exception& error) {
    group_->fail({.code = errc::internal,
                  .detail = std::string("the thread that watches NCCL ended: ") + error.what(),
                  .rank = rank_});
  }
}

// The device stays current on this thread, which ends with it: once the link is abandoned there is
// no device to go back from.
void rank_link::watch() noexcept {
  const auto me = device_->create_host_thread("nccl watch");
  device_->enter(me);
  watch_to_the_end();
  close();
  group_->relay();
  {
    // Whoever issues uses the events until it is told that the group has failed.
    const auto issuing = std::scoped_lock(issuing_);
    const auto lock = std::scoped_lock(mutex_);
    if (abandoned_)
      return;
    for (const auto made : events_)
      device_->destroy_event(made);
    events_.clear();
    orders_.clear();
    device_->enter({});
    device_->destroy_host_thread(me);
    finished_ = true;
  }
  changed_.notify_all();
}

bool rank_link::watch_on() {
  group_->relay();
  (void)settled();
  if (group_->failed())
    return false;
  auto first = first_order();
  while (first && advance(*first)) {
    delay_ = shortest_delay;
    first = first_order();
  }
  const auto lock = std::scoped_lock(mutex_);
  return !(leaving_ && orders_.empty());
}

std::optional<rank_link::order> rank_link::first_order() {
  const auto lock = std::scoped_lock(mutex_);
  return orders_.empty() ? std::nullopt : std::optional(orders_.front());
}

bool rank_link::advance(const order& first) {
  if (!first.enqueued)
    expect_soon(first, first.issued);
  if (!first.all_came) {
    if (!first.came) {
      if (!device_->ready(first.arrived))
        return false;
      group_->arrive();
    } else if (!group_->all_arrived(first.number,
                                    first.deadline.value_or(*first.came + patience_))) {
      return false;
    }
    const auto lock = std::scoped_lock(mutex_);
    (first.came ? orders_.front().all_came : orders_.front().came) = clock::now();
    return true;
  }
  expect_soon(first, *first.all_came);
  if (!first.enqueued || !device_->ready(first.done))
    return false;
  const auto lock = std::scoped_lock(mutex_);
  free_.push_back(first.arrived);
  free_.push_back(first.done);
  orders_.pop_front();
  changed_.notify_all();
  return true;
}

void rank_link::expect_soon(const order& first, time_point since) {
  const auto now = clock::now();
  if (now > first.deadline.value_or(since + patience_))
    group_->fail({.code = errc::deadline_exceeded,
                  .detail = "collective " + std::to_string(first.number) + " did not end on rank " +
                            std::to_string(rank_) + " in time"});
  if (const auto ended = group_->ended_rank(); ended && now - since > death_outlived)
    group_->fail(
        {.code = errc::transfer_aborted, .detail = ended_in(*ended, first.number), .rank = *ended});
}

void rank_link::pause() {
  auto lock = std::unique_lock(mutex_);
  if (leaving_ && orders_.empty())
    return;
  delay_ = orders_.empty() ? idle_delay : std::clamp(2 * delay_, shortest_delay, longest_delay);
  changed_.wait_for(lock, delay_);
}

void rank_link::close() noexcept {
  auto* const comm = comm_.take();
  if (!group_->failed() && finalize(comm)) {
    check_while_closing(*library_, "ncclCommDestroy", library_->ncclCommDestroy(comm));
    return;
  }
  check_while_closing(*library_, "ncclCommAbort", library_->ncclCommAbort(comm));
}

bool rank_link::finalize(ncclComm_t comm) noexcept {
  auto state = library_->ncclCommFinalize(comm);
  for (const auto deadline = clock::now() + patience_to_close;
       state == ncclInProgress && clock::now() < deadline && !given_up_ && !group_->failed();) {
    std::this_thread::sleep_for(1ms);
    if (const auto said = library_->ncclCommGetAsyncError(comm, &state); said != ncclSuccess)
      state = said;
  }
  if (state != ncclInProgress)
    check_while_closing(*library_, "ncclCommFinalize", state);
  else
    log(log_level::warn, "ferry.platform",
        "abort communicator reason=" + in_progress("ncclCommFinalize", rank_));
  return state == ncclSuccess;
}

} // namespace ferry::nccl
