// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "store_rendezvous.hpp"

#include "collective_words.hpp"
#include "failure_text.hpp"
#include "ferry/platform/quantity.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

namespace ferry {
namespace {

using clock = std::chrono::steady_clock;

constexpr auto look_every = std::chrono::milliseconds(20);
/// For how long a process may be seen to live when its connections are closed already.
constexpr auto connection_outlived = std::chrono::milliseconds(250);
/// For how long the host of a store waits for ranks that may not have seen the last of it.
constexpr auto longest_linger = std::chrono::seconds(2);
/// And for those that nobody may be: a rank that was missed has not been announced, and whoever
/// interrupted this one wants it to end.
constexpr auto brief_linger = std::chrono::milliseconds(250);
constexpr std::size_t largest_contribution = std::size_t{1} << 20;
constexpr auto failed_key = "failed";
constexpr auto join_name = "join";

std::string left_key(int rank) {
  return "left/" + std::to_string(rank);
}

std::string process_key(int rank) {
  return "process/" + std::to_string(rank);
}

std::string quoted(std::string_view key) {
  return "'" + std::string(key) + "'";
}

/// Returns where each of `size` ranks leaves what it brings to `name`.
std::vector<std::string> places_of(std::string_view name, int size) {
  std::vector<std::string> places;
  for (int rank = 0; rank < size; ++rank)
    places.push_back("meet/" + std::string(name) + "/" + std::to_string(rank));
  return places;
}

bool is_there(key_value_store& store, const std::string& key) {
  return store.await({&key, 1}, nanoseconds::zero());
}

/// Watches the processes of those of `unknown` that have been announced, and takes them out.
void watch_announced(key_value_store& store, peer_processes& peers, std::vector<int>& unknown) {
  std::erase_if(unknown, [&](int rank) {
    if (!is_there(store, process_key(rank)))
      return false;
    const auto process = read_process_identity(as_text(store.read(process_key(rank))));
    if (!process)
      throw ferry_error(process.error());
    peers.watch(rank, *process);
    return true;
  });
}

std::vector<int> all_ranks(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Waits until every rank has left or its process has ended, `patience` at most; for those that
/// have not been announced, `for_unannounced` at most.
void await_leaving(key_value_store& store, peer_processes& peers, std::vector<int> unannounced,
                   int size, nanoseconds patience, nanoseconds for_unannounced) {
  for (const auto from = clock::now();;) {
    watch_announced(store, peers, unannounced);
    const auto waited = clock::now() - from;
    std::vector<std::string> missing;
    for (int rank = 0; rank < size; ++rank)
      if (!peers.gone(rank) &&
          (waited < for_unannounced || std::ranges::find(unannounced, rank) == unannounced.end()))
        missing.push_back(left_key(rank));
    if (store.await(missing, look_every) || waited >= patience)
      return;
  }
}

} // namespace

store_rendezvous::store_rendezvous(std::shared_ptr<key_value_store> store, int rank, int size)
    : store_(std::move(store)), rank_(rank), size_(size) {
  FERRY_ASSERT(rank >= 0 && rank < size);
}

store_rendezvous::~store_rendezvous() {
  if (!takes_part_)
    return;
  try {
    store_->offer(left_key(rank_), {});
    if (store_->hosted_here())
      linger();
  } catch (const ferry_error&) {
    // Whoever could miss this rank cannot reach the store either.
  }
}

result<contributions> store_rendezvous::meet(std::string_view key, const_bytes own,
                                             nanoseconds patience) {
  try {
    return meet_through_store(key, own, patience);
  } catch (const ferry_error& error) {
    return tl::unexpected(unreachable(error.reason()));
  }
}

result<contributions> store_rendezvous::meet_through_store(std::string_view key, const_bytes own,
                                                           nanoseconds patience) {
  const auto deadline = clock::now() + patience;
  if (const auto cause = poisoned())
    return tl::unexpected(*cause);
  if (own.size() > largest_contribution)
    return tl::unexpected(
        fail({.code = errc::invalid_argument,
              .detail = "rank " + std::to_string(rank_) + " brings " + std::to_string(own.size()) +
                        " bytes to " + quoted(key) + "; expected at most " +
                        std::to_string(largest_contribution),
              .rank = rank_}));

  const auto places = places_of(key, size_);
  if (!store_->offer(places[static_cast<std::size_t>(rank_)], own))
    return tl::unexpected(
        fail({.code = errc::invalid_argument,
              .detail = "rank " + std::to_string(rank_) + " has been at " + quoted(key) +
                        " before; a name is used once, by one process a rank",
              .rank = rank_}));

  for (;;) {
    const auto left = std::max<nanoseconds>(deadline - clock::now(), nanoseconds::zero());
    if (store_->await(places, std::min<nanoseconds>(left, look_every)))
      break;
    watch_announced(*store_, peers_, unannounced_);
    if (auto cause = poisoned())
      return tl::unexpected(std::move(*cause));
    if (auto gone = somebody_is_gone(key, places))
      return tl::unexpected(fail(*gone));
    if (left == nanoseconds::zero())
      return tl::unexpected(fail(late(key, places, patience)));
  }
  contributions brought;
  for (const auto& place : places)
    brought.push_back(store_->read(place));
  return brought;
}

void store_rendezvous::poison(const failure& cause) noexcept {
  auto named = cause;
  named.rank = named.rank.value_or(rank_);
  try {
    fail_ranks(*store_, named);
  } catch (const ferry_error&) {
    // Ranks that cannot reach the store fail by themselves.
  }
}

std::optional<failure> store_rendezvous::failed() noexcept {
  try {
    return poisoned();
  } catch (const ferry_error& error) {
    return unreachable(error.reason());
  }
}

std::vector<int> store_rendezvous::lost() noexcept {
  std::vector<int> found;
  try {
    for (int other = 0; other < size_; ++other)
      if (peers_.gone(other) && !is_there(*store_, left_key(other)))
        found.push_back(other);
  } catch (const ferry_error&) {
    // Its host may have left, and taken along what tells who else has.
  }
  return found;
}

void fail_ranks(key_value_store& store, const failure& cause) {
  store.offer(failed_key, as_contribution(to_text(cause)));
}

failure refuse_to_join(key_value_store& store, int rank, failure cause) {
  cause.rank = cause.rank.value_or(rank);
  fail_ranks(store, cause);
  auto first = read_failure(as_text(store.read(failed_key)));
  store.offer(left_key(rank), {});
  return first;
}

void await_leaving_ranks(key_value_store& store, int size, nanoseconds patience) {
  peer_processes peers;
  await_leaving(store, peers, all_ranks(size), size, patience, patience);
}

failure store_rendezvous::fail(const failure& cause) {
  poison(cause);
  return poisoned().value_or(cause);
}

failure store_rendezvous::unreachable(const failure& reason) const {
  const auto deadline = clock::now() + connection_outlived;
  do {
    for (int other = 0; other < size_; ++other)
      if (peers_.gone(other))
        return {.code = errc::transfer_aborted,
                .detail = ended(other) + ": " + reason.detail,
                .rank = other};
    std::this_thread::sleep_for(look_every);
  } while (peers_.watched() && clock::now() < deadline);
  return reason;
}

void store_rendezvous::linger() {
  const auto cause = poisoned();
  const auto interrupted = cause && cause->code == errc::cancelled;
  const auto late = cause && cause->code == errc::deadline_exceeded;
  const auto own = interrupted && cause->rank == rank_;
  await_leaving(*store_, peers_, unannounced_, size_, own ? brief_linger : longest_linger,
                interrupted || late ? brief_linger : longest_linger);
}

std::optional<failure> store_rendezvous::poisoned() {
  if (!is_there(*store_, failed_key))
    return std::nullopt;
  return read_failure(as_text(store_->read(failed_key)));
}

std::optional<failure> store_rendezvous::somebody_is_gone(std::string_view key,
                                                          const std::vector<std::string>& places) {
  for (int other = 0; other < size_; ++other) {
    const auto has_left = is_there(*store_, left_key(other));
    if (!has_left && !peers_.gone(other))
      continue;
    // All may have come before it went.
    if (store_->await(places, nanoseconds::zero()))
      return std::nullopt;
    const auto came = is_there(*store_, places[static_cast<std::size_t>(other)]);
    return failure{.code = errc::transfer_aborted,
                   .detail = (has_left ? "rank " + std::to_string(other) + " left" : ended(other)) +
                             (came ? " before all came to " : " before it came to ") + quoted(key),
                   .rank = other};
  }
  return std::nullopt;
}

failure store_rendezvous::late(std::string_view key, const std::vector<std::string>& places,
                               nanoseconds patience) {
  auto missing = std::string();
  auto first = std::optional<int>();
  for (int other = 0; other < size_; ++other) {
    if (is_there(*store_, places[static_cast<std::size_t>(other)]))
      continue;
    missing += (first ? ", rank " : "rank ") + std::to_string(other);
    first = first.value_or(other);
  }
  const auto within = " within " + duration_text(patience);
  return {.code = errc::deadline_exceeded,
          .detail = missing + (key == join_name
                                   ? " did not join" + within +
                                         "; start all with the same MASTER_ADDR and MASTER_PORT, "
                                         "or have more patience to join"
                                   : " did not come to " + quoted(key) + within),
          .rank = first};
}

result<void> announce_rank(key_value_store& store, int rank, int size) {
  const auto own = to_text(this_process());
  if (store.offer(process_key(rank), as_contribution(own)) ||
      as_text(store.read(process_key(rank))) == own ||
      !store.await(places_of(join_name, size), nanoseconds::zero()))
    return {};
  return tl::unexpected(failure{
      .code = errc::invalid_argument,
      .detail = "the ranks that meet here have all joined, and another process is rank " +
                std::to_string(rank) + " of them: they are of another job; set another MASTER_PORT",
      .rank = rank});
}

result<void> store_rendezvous::introduce(nanoseconds patience) {
  try {
    return introduce_through_store(patience);
  } catch (const ferry_error& error) {
    return tl::unexpected(unreachable(error.reason()));
  }
}

result<void> store_rendezvous::introduce_through_store(nanoseconds patience) {
  if (auto announced = announce_rank(*store_, rank_, size_); !announced) {
    takes_part_ = false;
    return announced;
  }
  unannounced_ = all_ranks(size_);
  const auto met = meet(join_name, as_contribution(std::to_string(size_)), patience);
  if (!met)
    return tl::unexpected(met.error());
  for (int other = 0; other < size_; ++other) {
    const auto theirs = as_text((*met)[static_cast<std::size_t>(other)]);
    if (theirs != std::to_string(size_))
      return tl::unexpected(
          fail({.code = errc::invalid_config,
                .detail = "rank " + std::to_string(other) + " expects " + theirs +
                          " ranks and rank " + std::to_string(rank_) + " expects " +
                          std::to_string(size_) + "; start all with one size",
                .rank = other}));
  }
  watch_announced(*store_, peers_, unannounced_);
  return {};
}

} // namespace ferry
