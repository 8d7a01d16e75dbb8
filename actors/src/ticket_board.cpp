// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ticket_board.hpp"

#include <ferry/platform/quantity.hpp>

#include <cerrno>
#include <ctime>
#include <string>
#include <utility>

namespace ferry {
namespace {

enum class slot_state : std::uint8_t { free, requested, submitted, in_use };

constexpr unsigned state_bits = 2;

constexpr std::uint64_t pack(slot_state state, std::uint64_t generation) {
  return (generation << state_bits) | static_cast<std::uint64_t>(state);
}

constexpr slot_state state_of(std::uint64_t word) {
  return static_cast<slot_state>(word & ((1u << state_bits) - 1));
}

constexpr std::uint64_t generation_of(std::uint64_t word) {
  return word >> state_bits;
}

timespec monotonic_time_in(std::chrono::nanoseconds span) {
  const auto at = std::chrono::steady_clock::now().time_since_epoch() + span;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
  return {.tv_sec = seconds.count(), .tv_nsec = (at - seconds).count()};
}

constexpr slot_id slot_at(std::size_t index) {
  return slot_id{static_cast<std::uint32_t>(index)};
}

} // namespace

ticket_board::ticket_board(std::size_t slots)
    : size_(slots), cells_(std::make_unique<cell[]>(slots)) {
  FERRY_ASSERT(sem_init(&wake_, 0, 0) == 0);
}

ticket_board::~ticket_board() {
  sem_destroy(&wake_);
}

ticket_board::cell& ticket_board::at(slot_id slot) const noexcept {
  FERRY_ASSERT(static_cast<std::size_t>(slot) < size_);
  return cells_[static_cast<std::size_t>(slot)];
}

void ticket_board::request(const fetch_command& command) noexcept {
  auto& entry = at(command.slot);
  FERRY_ASSERT(state_of(entry.word.load()) == slot_state::free);
  entry.block.store(command.block);
  entry.retires_below = command.retires_below;
  entry.word.store(pack(slot_state::requested, command.generation));
}

bool ticket_board::revoke(slot_id slot, std::uint64_t generation) noexcept {
  auto& word = at(slot).word;
  for (const auto from : {slot_state::requested, slot_state::submitted}) {
    auto expected = pack(from, generation);
    if (word.compare_exchange_strong(expected, pack(slot_state::free, generation)))
      return true;
  }
  return false;
}

bool ticket_board::is_given_back(slot_id slot, std::uint64_t generation) const noexcept {
  return at(slot).word.load() == pack(slot_state::free, generation);
}

void ticket_board::wake_model() noexcept {
  if (waiting_.load() && waiting_.exchange(false))
    sem_post(&wake_);
}

void ticket_board::publish(slot_id slot, std::uint64_t generation, causal_stamp known) {
  auto& entry = at(slot);
  auto expected = pack(slot_state::requested, generation);
  if (entry.word.load() != expected)
    return;
  entry.known = std::move(known);
  if (!entry.word.compare_exchange_strong(expected, pack(slot_state::submitted, generation)))
    return;
  wake_model();
}

bool ticket_board::enter() noexcept {
  inside_.fetch_add(1);
  if (!barred_.load())
    return true;
  leave();
  return false;
}

void ticket_board::leave() noexcept {
  if (inside_.fetch_sub(1) != 1 || !failed())
    return;
  {
    const std::lock_guard lock{mutex_};
  }
  woken_.notify_all();
}

std::optional<ticket_board::ticket> ticket_board::take(block_id block,
                                                       std::uint64_t oldest) noexcept {
  for (;;) {
    cell* best = nullptr;
    std::uint64_t best_word = 0;
    for (std::size_t i = 0; i != size_; ++i) {
      const auto word = cells_[i].word.load();
      if (state_of(word) == slot_state::submitted && cells_[i].block.load() == block &&
          generation_of(word) >= oldest && (best == nullptr || word < best_word)) {
        best = &cells_[i];
        best_word = word;
      }
    }
    if (best == nullptr)
      return std::nullopt;
    const auto generation = generation_of(best_word);
    if (best->word.compare_exchange_strong(best_word, pack(slot_state::in_use, generation)))
      return ticket{slot_at(static_cast<std::size_t>(best - cells_.get())), generation,
                    best->retires_below};
  }
}

bool ticket_board::on_its_way(block_id block, std::uint64_t oldest) const noexcept {
  for (std::size_t i = 0; i != size_; ++i) {
    const auto word = cells_[i].word.load();
    const auto state = state_of(word);
    if ((state == slot_state::requested || state == slot_state::submitted) &&
        cells_[i].block.load() == block && generation_of(word) >= oldest &&
        cells_[i].word.load() == word)
      return true;
  }
  return false;
}

result<ticket_board::ticket> ticket_board::wait_for(block_id block, std::uint64_t oldest,
                                                    std::chrono::microseconds deadline) {
  const auto until = monotonic_time_in(deadline);
  for (;;) {
    waiting_.store(true);
    if (auto found = take(block, oldest)) {
      waiting_.store(false);
      return *found;
    }
    if (failed())
      return tl::unexpected(first_failure());
    if (sem_clockwait(&wake_, CLOCK_MONOTONIC, &until) != 0 && errno == ETIMEDOUT)
      break;
  }
  waiting_.store(false);
  late_.store(true);
  return tl::unexpected(failure{errc::deadline_exceeded,
                                "its copy was not submitted within " + duration_text(deadline)});
}

std::optional<ticket_board::ticket> ticket_board::taken(block_id block) const noexcept {
  for (std::size_t i = 0; i != size_; ++i) {
    const auto word = cells_[i].word.load();
    if (state_of(word) == slot_state::in_use && cells_[i].block.load() == block)
      return ticket{slot_at(i), generation_of(word), cells_[i].retires_below};
  }
  return std::nullopt;
}

const causal_stamp& ticket_board::known(slot_id slot) const noexcept {
  return at(slot).known;
}

void ticket_board::give_back(slot_id slot) noexcept {
  auto& word = at(slot).word;
  const auto seen = word.load();
  FERRY_ASSERT(state_of(seen) == slot_state::in_use);
  word.store(pack(slot_state::free, generation_of(seen)));
}

void ticket_board::fail(failure cause) {
  {
    const std::lock_guard lock{mutex_};
    if (failed())
      return;
    first_failure_ = std::move(cause);
    failed_.store(true);
    barred_.store(true);
  }
  wake_model();
}

bool ticket_board::hold_off(failure why) {
  const std::lock_guard lock{mutex_};
  held_off_ = std::move(why);
  barred_.store(true);
  if (!entered())
    return true;
  barred_.store(failed());
  return false;
}

void ticket_board::admit() noexcept {
  const std::lock_guard lock{mutex_};
  barred_.store(failed());
}

bool ticket_board::wait_left(std::chrono::nanoseconds deadline) {
  std::unique_lock lock{mutex_};
  return woken_.wait_for(lock, deadline, [&] { return !entered(); });
}

failure ticket_board::first_failure() const {
  const std::lock_guard lock{mutex_};
  return failed() ? first_failure_ : held_off_;
}

ticket_board::counts ticket_board::count() const noexcept {
  counts all;
  for (std::size_t i = 0; i != size_; ++i) {
    const auto state = state_of(cells_[i].word.load());
    all.free += state == slot_state::free ? 1 : 0;
    all.in_use += state == slot_state::in_use ? 1 : 0;
    all.in_flight += state == slot_state::free ? 0 : 1;
  }
  return all;
}

std::optional<block_id> ticket_board::any_in_use() const noexcept {
  for (std::size_t i = 0; i != size_; ++i)
    if (state_of(cells_[i].word.load()) == slot_state::in_use)
      return cells_[i].block.load();
  return std::nullopt;
}

} // namespace ferry
