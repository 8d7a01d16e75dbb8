// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/shadow.hpp"

#include <iterator>
#include <utility>

namespace ferry::sim {
namespace {

void add_conflict(std::vector<conflict>& conflicts, const access_ref& earlier, std::uintptr_t begin,
                  std::uintptr_t end) {
  for (auto& known : conflicts) {
    if (known.earlier == earlier && known.end == begin) {
      known.end = end;
      return;
    }
  }
  conflicts.push_back({earlier, begin, end});
}

} // namespace

void shadow_memory::split(std::uintptr_t at) {
  auto after = cells_.upper_bound(at);
  if (after == cells_.begin())
    return;
  auto around = std::prev(after);
  if (around->first == at || around->second.end <= at)
    return;
  auto upper = around->second;
  around->second.end = at;
  cells_.emplace_hint(after, at, std::move(upper));
}

void shadow_memory::enter(const access_ref& access, const vector_clock& known,
                          std::vector<conflict>& conflicts) {
  if (access->begin == access->end)
    return;
  split(access->begin);
  split(access->end);
  auto first = cells_.lower_bound(access->begin);

  for (auto it = first; it != cells_.end() && it->first < access->end; ++it) {
    const auto& [begin, state] = *it;
    if (state.writer && !known.knows(state.writer->when))
      add_conflict(conflicts, state.writer, begin, state.end);
    if (!access->writes)
      continue;
    for (const auto& reader : state.readers) {
      if (!known.knows(reader->when))
        add_conflict(conflicts, reader, begin, state.end);
    }
  }

  if (access->writes) {
    cells_.erase(first, cells_.lower_bound(access->end));
    cells_.emplace(access->begin, cell{access->end, access, {}});
    return;
  }
  auto position = access->begin;
  for (auto it = first; position < access->end;) {
    if (it == cells_.end() || it->first > position) {
      auto gap_end = it == cells_.end() || it->first > access->end ? access->end : it->first;
      cells_.emplace_hint(it, position, cell{gap_end, nullptr, {access}});
      position = gap_end;
      continue;
    }
    std::erase_if(it->second.readers,
                  [&](const access_ref& reader) { return known.knows(reader->when); });
    it->second.readers.push_back(access);
    position = it->second.end;
    ++it;
  }
}

void shadow_memory::forget(std::uintptr_t begin, std::uintptr_t end) {
  split(begin);
  split(end);
  cells_.erase(cells_.lower_bound(begin), cells_.lower_bound(end));
}

void shadow_memory::forget_known(const vector_clock& to_all) {
  std::erase_if(cells_, [&](const auto& entry) {
    const auto& state = entry.second;
    if (state.writer && !to_all.knows(state.writer->when))
      return false;
    for (const auto& reader : state.readers) {
      if (!to_all.knows(reader->when))
        return false;
    }
    return true;
  });
}

} // namespace ferry::sim
