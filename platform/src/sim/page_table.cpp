// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/page_table.hpp"

#include <iterator>

namespace ferry::sim {
namespace {

std::uintptr_t begin_of(const_bytes range) noexcept {
  return reinterpret_cast<std::uintptr_t>(range.data());
}

std::uintptr_t end_of(const_bytes range) noexcept {
  return begin_of(range) + range.size();
}

} // namespace

const page_table::registration& page_table::add(const_bytes pages) {
  return registrations_.emplace(begin_of(pages), registration{pages, std::make_unique<std::byte>()})
      .first->second;
}

void page_table::remove(const registration& ended) {
  registrations_.erase(begin_of(ended.pages));
}

const page_table::registration* page_table::find(const_bytes range) const noexcept {
  const auto after = registrations_.upper_bound(begin_of(range));
  if (after == registrations_.begin())
    return nullptr;
  const auto& last = std::prev(after)->second;
  return end_of(range) <= end_of(last.pages) ? &last : nullptr;
}

const page_table::registration* page_table::find_exactly(const_bytes pages) const noexcept {
  const auto found = registrations_.find(begin_of(pages));
  return found != registrations_.end() && found->second.pages.size() == pages.size()
             ? &found->second
             : nullptr;
}

bool page_table::touched(const_bytes range) const noexcept {
  const auto after = registrations_.lower_bound(end_of(range));
  return after != registrations_.begin() &&
         end_of(std::prev(after)->second.pages) > begin_of(range);
}

} // namespace ferry::sim
