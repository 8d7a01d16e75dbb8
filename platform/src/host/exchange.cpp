// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/exchange.hpp"

#include "collective_words.hpp"
#include "process/futex.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

namespace ferry {
namespace {

using clock = std::chrono::steady_clock;

/// How long a rank that waits does not look whether the others live.
constexpr auto look_every = std::chrono::milliseconds(20);

template <std::size_t Capacity>
void write_text(std::array<char, Capacity>& target, std::string_view text) noexcept {
  const auto length = std::min(text.size(), Capacity - 1);
  std::memcpy(target.data(), text.data(), length);
  target[length] = '\0';
}

template <std::size_t Capacity>
std::string_view read_text(const std::array<char, Capacity>& source) noexcept {
  return {source.data(), ::strnlen(source.data(), Capacity)};
}

const_bytes part_of(const_bytes whole, std::size_t offset) {
  return whole.subspan(offset, std::min(exchange_window::capacity, whole.size() - offset));
}

described_collective described(int rank, const exchange_window& window) {
  return {rank, read_text(window.what), window.block, window.shard_bytes};
}

} // namespace

exchange::exchange(std::shared_ptr<shared_memory> shared, int rank, int size, nanoseconds patience,
                   peer_processes peers)
    : shared_(std::move(shared)), board_(shared_->bytes()), rank_(rank), size_(size),
      patience_(patience), peers_(std::move(peers)), members_(static_cast<std::size_t>(size)) {
  FERRY_ASSERT(shared_->bytes().size() == exchange_board::size(size));
  std::iota(members_.begin(), members_.end(), 0);
}

void exchange::confine_to(std::vector<int> members) {
  FERRY_ASSERT(std::ranges::find(members, rank_) != members.end());
  members_ = std::move(members);
}

void exchange::gather(std::uint64_t number, mutable_bytes output, const_bytes shard,
                      operation_tag tag) {
  const auto my_turn = [&](int other) { return other != rank_ || turn_.load() == number; };
  if (!await(number, my_turn))
    return;

  auto& own = board_.rank(rank_);
  auto offset = std::size_t{0};
  do {
    const auto part = own.written.load(std::memory_order_relaxed);
    const auto piece = part_of(shard, offset);
    show(part, piece, shard.size(), tag);

    const auto shown = [&](int other) { return board_.rank(other).written.load() > part; };
    if (!await(number, shown) || !same_everywhere(number, part))
      return;
    for (int other = 0; other < size_ && !piece.empty(); ++other) {
      const auto start = static_cast<std::size_t>(other) * shard.size() + offset;
      std::memcpy(output.data() + start, board_.rank(other).window_of(part).bytes.data(),
                  piece.size());
    }
    offset += piece.size();
  } while (offset < shard.size());
  turn_.store(number + 1);
  announce();
}

void exchange::plan(std::uint64_t number, std::uint64_t shard_bytes, operation_tag tag) noexcept {
  auto& own = board_.rank(rank_);
  auto& made = own.plan_of(number);
  // What another rank may still look at stays; this plan is compared with none then.
  const auto room = std::ranges::all_of(members_, [&](int other) {
    return board_.rank(other).compared.load() + exchange_rank::plans_each > number;
  });
  if (room) {
    made.shard_bytes = shard_bytes;
    made.block = tag.block;
    write_text(made.what, tag.what);
    made.number.store(number + 1);
  }
  own.planned.store(number + 1);
}

void exchange::compare_plans() noexcept {
  const auto lock = std::scoped_lock(comparing_);
  auto& compared = board_.rank(rank_).compared;
  for (auto number = compared.load(); all_planned(number) && same_plans(number); ++number)
    compared.store(number + 1);
}

bool exchange::all_planned(std::uint64_t number) const noexcept {
  return std::ranges::all_of(members_,
                             [&](int other) { return board_.rank(other).planned.load() > number; });
}

bool exchange::same_plans(std::uint64_t number) {
  std::optional<described_collective> reference;
  for (const int other : members_) {
    const auto& made = board_.rank(other).plan_of(number);
    if (made.number.load() != number + 1)
      continue;
    const auto theirs =
        described_collective{other, read_text(made.what), made.block, made.shard_bytes};
    if (!reference)
      reference = theirs;
    if (theirs.same_as(*reference))
      continue;
    fail({.code = errc::invalid_argument,
          .detail = disagreement(number, theirs, *reference),
          .rank = other});
    return false;
  }
  return true;
}

void exchange::arrive() noexcept {
  auto& own = board_.rank(rank_);
  own.written.store(own.written.load(std::memory_order_relaxed) + 1);
  announce();
}

bool exchange::all_arrived(std::uint64_t number, clock::time_point deadline) {
  if (board_.head().cause.state.load() != 0)
    return false;
  const auto turn = board_.rank(rank_).written.load(std::memory_order_relaxed);
  const auto came = [&](int other) { return board_.rank(other).written.load() >= turn; };
  if (std::ranges::all_of(members_, came))
    return true;
  if (progress_possible(number, came) && clock::now() >= deadline)
    expire(number, came);
  return false;
}

void exchange::show(std::uint64_t part, const_bytes piece, std::size_t shard_bytes,
                    operation_tag tag) {
  auto& own = board_.rank(rank_);
  auto& window = own.window_of(part);
  window.shard_bytes = shard_bytes;
  window.block = tag.block;
  write_text(window.what, tag.what);
  if (!piece.empty())
    std::memcpy(window.bytes.data(), piece.data(), piece.size());
  own.written.store(part + 1);
  announce();
}

bool exchange::same_everywhere(std::uint64_t number, std::uint64_t part) {
  const auto first = members_.front();
  const auto reference = described(first, board_.rank(first).window_of(part));
  for (const int other : members_) {
    const auto theirs = described(other, board_.rank(other).window_of(part));
    if (theirs.same_as(reference))
      continue;
    fail({.code = errc::invalid_argument,
          .detail = disagreement(number, theirs, reference),
          .rank = other});
    return false;
  }
  return true;
}

template <class Condition>
bool exchange::await(std::uint64_t number, const Condition& holds_for) {
  const auto deadline = clock::now() + patience_;
  for (;;) {
    const auto seen = board_.head().changes.load();
    if (board_.head().cause.state.load() != 0)
      return false;
    auto holds = true;
    for (const int other : members_)
      holds = holds && holds_for(other);
    if (holds)
      return true;
    if (!progress_possible(number, holds_for))
      return false;
    const auto left = deadline - clock::now();
    if (left <= nanoseconds::zero()) {
      expire(number, holds_for);
      return false;
    }
    sleep_while(board_.head().changes, seen, std::min<nanoseconds>(left, look_every));
  }
}

// Who leaves in the middle of the work may have found out in another group that a rank has died, so
// that the death is the first cause of the two.
template <class Condition>
bool exchange::progress_possible(std::uint64_t number, const Condition& holds_for) {
  auto possible = true;
  std::optional<int> left;
  std::optional<int> dead;
  for (const int other : members_) {
    const auto is_gone = peers_.gone(other); // Asked first: it may leave and end in between.
    const auto leaves_at = board_.rank(other).leaves_at.load();
    const auto has_left = leaves_at != 0 && leaves_at <= number;
    const auto is_missed = (has_left || is_gone) && !holds_for(other);
    if (is_gone && (leaves_at == 0 || (is_missed && !has_left)))
      dead = dead.value_or(other);
    if (is_missed && has_left)
      left = left.value_or(other);
    possible = possible && !is_missed;
  }
  if (possible)
    return true;
  fail({.code = errc::transfer_aborted,
        .detail = dead ? ended_in(*dead, number) : left_before(*left, number),
        .rank = dead ? dead : left});
  return false;
}

template <class Condition>
void exchange::expire(std::uint64_t number, const Condition& holds_for) {
  auto missing = std::string();
  auto first = std::optional<int>();
  for (const int other : members_) {
    if (holds_for(other))
      continue;
    missing += (first ? ", rank " : "rank ") + std::to_string(other);
    first = first.value_or(other);
  }
  fail({.code = errc::deadline_exceeded, .detail = not_arrived(missing, number), .rank = first});
}

void exchange::fail(const failure& cause) noexcept {
  auto& shared = board_.head().cause;
  auto unclaimed = std::uint32_t{0};
  const auto claim = static_cast<std::uint32_t>(rank_) + 1;
  if (!shared.state.compare_exchange_strong(unclaimed, claim))
    return;
  shared.code = static_cast<std::uint8_t>(cause.code);
  shared.rank = cause.rank.value_or(rank_);
  shared.has_vendor_code = cause.vendor_code.has_value();
  shared.vendor_code = cause.vendor_code.value_or(0);
  write_text(shared.block, cause.block);
  write_text(shared.detail, cause.detail);
  shared.state.store(claim | exchange_cause::complete);
  announce();
}

void exchange::leave(std::uint64_t number) noexcept {
  board_.rank(rank_).leaves_at.store(number);
  announce();
}

std::optional<failure> exchange::failed() {
  for (const int other : members_) {
    if (board_.head().cause.state.load() != 0)
      return read_cause();
    if (peers_.gone(other) && board_.rank(other).leaves_at.load() == 0)
      fail({.code = errc::transfer_aborted, .detail = ended(other), .rank = other});
  }
  if (board_.head().cause.state.load() != 0)
    return read_cause();
  return std::nullopt;
}

std::optional<int> exchange::ended_rank() const noexcept {
  const auto found = std::ranges::find_if(members_, [&](int other) { return peers_.gone(other); });
  return found == members_.end() ? std::nullopt : std::optional(*found);
}

failure exchange::read_cause() {
  auto& head = board_.head();
  const auto deadline = clock::now() + patience_;
  for (;;) {
    const auto seen = head.changes.load();
    const auto state = head.cause.state.load();
    if ((state & exchange_cause::complete) != 0)
      break;
    const auto reporter = static_cast<int>(state) - 1;
    if (peers_.gone(reporter) || clock::now() >= deadline)
      return {.code = errc::transfer_aborted, .detail = ended(reporter), .rank = reporter};
    sleep_while(head.changes, seen, look_every);
  }
  const auto& shared = head.cause;
  auto cause = failure{.code = static_cast<errc>(shared.code),
                       .detail = std::string(read_text(shared.detail)),
                       .block = std::string(read_text(shared.block)),
                       .rank = shared.rank};
  if (shared.has_vendor_code)
    cause.vendor_code = shared.vendor_code;
  return cause;
}

void exchange::announce() noexcept {
  board_.head().changes.fetch_add(1);
  wake_all(board_.head().changes);
}

} // namespace ferry
