// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/order.hpp"

#include <ferry/platform/error.hpp>

#include <algorithm>
#include <array>
#include <bit>

namespace ferry {

namespace {

// A request of 50 steps that runs every block twice a step fits.
constexpr std::size_t history_per_block = 128;
constexpr std::size_t least_history = 1024;
constexpr std::size_t most_history = std::size_t{1} << 17;

constexpr std::size_t context_length = 32;
constexpr int most_candidates = 16;

constexpr auto nowhere = ~std::uint64_t{0};

std::size_t count_blocks(std::span<const planned_ring> rings) {
  std::size_t count = 0;
  for (const auto& ring : rings)
    for (const auto block : ring.blocks)
      count = std::max(count, static_cast<std::size_t>(block) + 1);
  return count;
}

/// The last symbols before some point of a sequence.
struct context {
  std::array<std::uint32_t, context_length> recent_first;
  std::size_t length = 0;

  [[nodiscard]] std::span<const std::uint32_t> symbols() const {
    return std::span(recent_first).first(length);
  }
};

template <class Past>
context context_before(std::uint64_t end, std::uint64_t oldest, const Past& past) {
  context found;
  for (; found.length < context_length && end - found.length > oldest; ++found.length)
    found.recent_first[found.length] = past(end - found.length - 1);
  return found;
}

} // namespace

execution_order::execution_order(std::span<const planned_ring> rings)
    : place_(nowhere), declared_next_(count_blocks(rings)) {
  const auto blocks = declared_next_.size();
  const auto capacity =
      std::clamp(std::bit_ceil(blocks * history_per_block), least_history, most_history);
  history_.resize(capacity);
  mask_ = capacity - 1;
  last_.resize(blocks + 2);
  const auto first = std::ranges::find_if(rings, [](const auto& r) { return !r.blocks.empty(); });
  if (first != rings.end())
    first_ = static_cast<symbol>(first->blocks.front());
  for (const auto& ring : rings)
    for (std::size_t i = 0; i < ring.blocks.size(); ++i)
      declared_next_[static_cast<symbol>(ring.blocks[i])] =
          static_cast<symbol>(ring.blocks[(i + 1) % ring.blocks.size()]);
}

void execution_order::begin_request() noexcept {
  append(request_begin());
  prefer_latest_ = false;
}

void execution_order::end_request() noexcept {
  announced_.clear();
  announced_done_ = 0;
  append(request_end());
}

void execution_order::record(block_id used) noexcept {
  FERRY_ASSERT(static_cast<symbol>(used) < block_count());
  consume_announced(used);
  append(static_cast<symbol>(used));
}

void execution_order::announce(std::span<const block_id> blocks) {
  const auto done = static_cast<std::ptrdiff_t>(announced_done_);
  announced_.erase(announced_.begin(), announced_.begin() + done);
  announced_done_ = 0;
  announced_.insert(announced_.end(), blocks.begin(), blocks.end());
}

std::optional<block_id> execution_order::next_announced() const noexcept {
  if (announced_done_ == announced_.size())
    return std::nullopt;
  return announced_[announced_done_];
}

void execution_order::consume_announced(block_id used) noexcept {
  const auto pending = std::span(announced_).subspan(announced_done_);
  const auto found = std::ranges::find(pending, used);
  announced_done_ = found == pending.end()
                        ? announced_.size()
                        : announced_done_ + static_cast<std::size_t>(found - pending.begin()) + 1;
}

void execution_order::append(symbol what) noexcept {
  const auto followed = place_ != nowhere && at(place_ + 1) == what;
  if (is_block(what))
    judge(followed, what);

  const auto before = last_[what];
  const auto distance = before == 0 ? 0 : size_ - (before - 1);
  history_[size_ & mask_] = {what, distance <= mask_ ? static_cast<std::uint32_t>(distance) : 0};
  last_[what] = ++size_;
  place_ =
      followed ? place_ + 1 : find_match(context_before(size_, oldest(), [this](position where) {
                                           return at(where);
                                         }).symbols());
}

void execution_order::judge(bool followed, symbol what) noexcept {
  if (!followed) {
    prefer_latest_ = true;
  } else if (prefer_latest_) {
    const auto latest = find_latest(at(size_ - 1));
    prefer_latest_ = latest == nowhere || at(latest + 1) == what;
  }
}

std::size_t execution_order::predict(std::span<block_id> next) const noexcept {
  if (block_count() == 0)
    return 0;
  const auto pending = std::span(announced_).subspan(announced_done_);
  std::size_t count = std::min(pending.size(), next.size());
  std::ranges::copy(pending.first(count), next.begin());
  if (count == next.size())
    return count;

  // The past is the history and, behind it, what has been predicted so far.
  const auto past = [&](position where) {
    return where < size_ ? at(where) : static_cast<symbol>(next[where - size_]);
  };
  const auto match_before = [&](position end) {
    return find_match(context_before(end, oldest(), past).symbols());
  };

  const auto last_before = [&](position end) { return end == 0 ? request_begin() : past(end - 1); };
  auto place = prefer_latest_ ? find_latest(last_before(size_ + count))
               : count == 0   ? place_
                              : match_before(size_ + count);
  for (; count < next.size(); ++count) {
    if (place != nowhere && !is_block(past(place + 1)))
      place = match_before(place + 1);
    if (place != nowhere) {
      next[count] = block_id{past(++place)};
    } else {
      const auto last = last_before(size_ + count);
      const auto guess = is_block(last) ? declared_next_[last] : first_;
      next[count] = block_id{guess};
      place = find_latest(guess);
    }
  }
  return count;
}

execution_order::position execution_order::find_latest(symbol what) const noexcept {
  return find_match(std::span(&what, 1));
}

execution_order::position
execution_order::find_match(std::span<const symbol> recent_first) const noexcept {
  auto best = nowhere;
  std::size_t best_length = 0;
  auto candidate = last_[recent_first.front()];
  if (candidate-- == 0)
    return nowhere;
  for (int tried = 0; tried < most_candidates && candidate >= oldest(); ++tried) {
    const auto followed = candidate + 1 < size_ && is_block(at(candidate + 1));
    std::size_t length = 1;
    while (followed && length < recent_first.size() && candidate >= oldest() + length &&
           at(candidate - length) == recent_first[length])
      ++length;
    if (followed && length > best_length) {
      best = candidate;
      best_length = length;
    }
    const auto back = history_[candidate & mask_].back;
    if (back == 0 || back > candidate)
      break;
    candidate -= back;
  }
  return best;
}

} // namespace ferry
