// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/residency.hpp"

#include <ferry/platform/error.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

namespace ferry {

namespace {

constexpr std::size_t most_model_runs = 10'000'000; // Of blocks; about a tenth of a second.
constexpr std::size_t evaluation_passes = 8;        // Of `steady_pass`.
constexpr int bisections = 40;

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// One search for the residents of a stack.
class search {
public:
  search(const streamed_stack& stack, const resident_room& room)
      : stack_(stack), room_(room), now_(stack.costs.begin(), stack.costs.end()),
        kept_(stack.costs.size()) {
    for (const auto& each : stack.costs) {
      nanoseconds copy{};
      for (const auto& piece : each.pieces)
        copy += piece.copy;
      copies_.push_back(seconds(copy));
      computes_.push_back(seconds(each.compute * stack.how.passes));
    }
  }

  std::vector<bool> run() {
    pace();
    improve(most_model_runs / 2);
    const auto paced = kept_;
    const auto paced_time = time();
    take(std::vector<bool>(kept_.size()));
    improve(most_model_runs);
    if (paced_time <= time())
      take(paced);
    leave_two_streamed();
    return kept_;
  }

private:
  [[nodiscard]] std::size_t size(std::size_t block) const {
    return room_.bytes ? stack_.bytes[block] : 1;
  }
  [[nodiscard]] std::size_t most() const { return room_.bytes ? *room_.bytes : *room_.count; }
  [[nodiscard]] std::size_t used() const { return sum_of(kept_); }
  [[nodiscard]] bool fits(std::size_t block, std::size_t used) const {
    return used <= most() && size(block) <= most() - used;
  }
  [[nodiscard]] bool may_go_on() const {
    return runs_ + kept_.size() * evaluation_passes <= most_runs_;
  }

  [[nodiscard]] std::size_t sum_of(const std::vector<bool>& kept) const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i != kept.size(); ++i)
      sum += kept[i] ? size(i) : 0;
    return sum;
  }

  void improve(std::size_t most_runs) {
    most_runs_ = most_runs;
    fill();
    exchange();
  }

  void flip(std::size_t block) {
    FERRY_ASSERT(block < kept_.size());
    kept_[block] = !kept_[block];
    now_[block].pieces = kept_[block] ? decltype(block_cost::pieces){} : stack_.costs[block].pieces;
  }

  void take(const std::vector<bool>& kept) {
    for (std::size_t i = 0; i != kept.size(); ++i)
      if (kept[i] != kept_[i])
        flip(i);
  }

  [[nodiscard]] nanoseconds time() {
    runs_ += kept_.size() * evaluation_passes;
    return steady_pass(now_, stack_.how);
  }

  /// Returns the residents that let the link fall behind `share` of the compute by no more than
  /// about half a block anywhere. It can be ahead by one block at most.
  [[nodiscard]] std::vector<bool> paced(double share) const {
    std::vector<bool> kept(kept_.size());
    double behind = 0;
    for (std::size_t i = 0; i != kept.size(); ++i) {
      behind = std::max(behind + copies_[i] - share * computes_[i], -copies_[i]);
      if (behind < copies_[i] / 2 || copies_[i] == 0)
        continue;
      kept[i] = true;
      behind -= copies_[i];
    }
    return kept;
  }

  /// Finds the least share of the compute that the room allows for.
  void pace() {
    double low = 0;
    double high = 1;
    while (sum_of(paced(high)) > most() && high < 1e12)
      high *= 2;
    auto best = kept_;
    auto best_time = time();
    for (int i = 0; i != bisections && may_go_on(); ++i) {
      const auto share = (low + high) / 2;
      const auto kept = paced(share);
      const auto too_much = sum_of(kept) > most();
      (too_much ? low : high) = share;
      if (too_much)
        continue;
      take(kept);
      const auto took = time();
      const auto larger = room_.count && sum_of(kept) > sum_of(best);
      if (took < best_time || larger) {
        best = kept;
        best_time = took;
      }
    }
    take(best);
  }

  /// Returns how far the nearest resident is, around the stack.
  [[nodiscard]] std::size_t distance(std::size_t block) const {
    const auto count = kept_.size();
    for (std::size_t d = 1; d != count; ++d)
      if (kept_[(block + d) % count] || kept_[(block + count - d) % count])
        return d;
    return count;
  }

  /// Adds residents one by one, each where it helps most; those that do not only where a number is
  /// asked for, far from others.
  void fill() {
    auto took = time();
    for (auto used_now = used();;) {
      auto best = kept_.size();
      auto best_time = room_.count ? nanoseconds::max() : took;
      std::size_t best_distance = 0;
      for (std::size_t i = 0; i != kept_.size(); ++i) {
        if (kept_[i] || !fits(i, used_now))
          continue;
        auto with = took;
        if (may_go_on()) {
          flip(i);
          with = time();
          flip(i);
        }
        const auto far = distance(i);
        if (with < best_time || (room_.count && with == best_time && far > best_distance)) {
          best = i;
          best_time = with;
          best_distance = far;
        }
      }
      if (best == kept_.size())
        return;
      flip(best);
      used_now += size(best);
      took = best_time;
    }
  }

  /// Lets a resident change places with another block wherever that helps.
  void exchange() {
    auto took = time();
    for (auto changed = true; changed;) {
      changed = false;
      for (std::size_t out = 0; out != kept_.size(); ++out)
        for (std::size_t in = 0; in != kept_.size() && kept_[out]; ++in) {
          if (kept_[in] || !fits(in, used() - size(out)))
            continue;
          if (!may_go_on())
            return;
          flip(out);
          flip(in);
          if (const auto with = time(); with < took) {
            took = with;
            changed = true;
          } else {
            flip(in);
            flip(out);
          }
        }
    }
  }

  /// A ring of one block would load it anew every time, in the way of itself.
  void leave_two_streamed() {
    const auto kept = std::ranges::find(kept_, true);
    if (room_.bytes && kept != kept_.end() && std::ranges::count(kept_, false) == 1)
      flip(static_cast<std::size_t>(kept - kept_.begin()));
  }

  const streamed_stack& stack_;
  const resident_room& room_;
  std::vector<block_cost> now_;
  std::vector<bool> kept_;
  std::vector<double> copies_;
  std::vector<double> computes_;
  std::size_t runs_ = 0; ///< Of blocks through the model.
  std::size_t most_runs_ = most_model_runs;
};

std::vector<bool> leading(std::span<const std::size_t> sizes, std::size_t most) {
  std::vector<bool> kept(sizes.size());
  for (std::size_t i = 0; i != sizes.size() && sizes[i] <= most; ++i) {
    kept[i] = true;
    most -= sizes[i];
  }
  return kept;
}

std::vector<bool> strided(std::span<const std::size_t> sizes, std::size_t most) {
  for (auto count = sizes.size(); count != 0; --count) {
    std::vector<bool> kept(sizes.size());
    std::size_t sum = 0;
    for (std::size_t i = 0; i != count; ++i) {
      const auto block = i * sizes.size() / count;
      kept[block] = true;
      sum += sizes[block];
    }
    if (sum <= most)
      return kept;
  }
  return std::vector<bool>(sizes.size());
}

std::vector<bool> assuming_balance(std::span<const std::size_t> bytes, const resident_room& room,
                                   std::size_t resident, residency which) {
  const auto all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  const auto rest = all - std::min(resident, all);
  std::vector<block_cost> costs;
  costs.reserve(bytes.size());
  for (const auto each : bytes)
    costs.push_back(
        {.compute = nanoseconds{static_cast<std::int64_t>(rest / bytes.size())},
         .pieces = {{.copy = nanoseconds{static_cast<std::int64_t>(each)}, .gather = {}}}});
  return choose_residents({.costs = costs, .bytes = bytes}, room, which);
}

} // namespace

std::vector<bool> choose_residents(const streamed_stack& stack, const resident_room& room,
                                   residency which) {
  FERRY_ASSERT(room.bytes.has_value() != room.count.has_value() &&
               stack.costs.size() == stack.bytes.size());
  if (which == residency::spread)
    return search(stack, room).run();
  const auto most = room.bytes ? *room.bytes : *room.count;
  const auto sizes = room.bytes ? std::vector(stack.bytes.begin(), stack.bytes.end())
                                : std::vector(stack.bytes.size(), std::size_t{1});
  return which == residency::leading ? leading(sizes, most) : strided(sizes, most);
}

std::vector<bool> residents_in_bytes(std::span<const std::size_t> bytes, std::size_t most,
                                     residency which) {
  return assuming_balance(bytes, {.bytes = most, .count = {}}, most, which);
}

std::vector<bool> residents_by_number(std::span<const std::size_t> bytes, std::size_t count,
                                      residency which) {
  const auto all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  const auto share = bytes.empty() ? 0 : all / bytes.size();
  return assuming_balance(bytes, {.bytes = {}, .count = count},
                          share * std::min(count, bytes.size()), which);
}

} // namespace ferry
