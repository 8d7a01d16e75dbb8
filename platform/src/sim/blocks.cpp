// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/blocks.hpp"

#include "ferry/platform/memory.hpp"
#include "sim/byte_runner.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace ferry::sim {
namespace {

constexpr std::size_t quarantine_bytes = std::size_t{16} << 20;

std::uintptr_t begin_of(const_bytes range) noexcept {
  return reinterpret_cast<std::uintptr_t>(range.data());
}

std::size_t size_held(std::size_t bytes) noexcept {
  return align_up(std::max<std::size_t>(bytes, 1));
}

void* reserve_addresses(std::size_t bytes) noexcept {
  auto* address =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

const char* name_of(memory_kind kind) noexcept {
  return kind == memory_kind::device ? "device block " : "pinned block ";
}

} // namespace

block_table::~block_table() {
  for (const auto& [begin, block] : live_)
    give_back(block);
  for (const auto& block : quarantine_)
    give_back(block);
}

void block_table::give_back(const held_block& block) noexcept {
  auto* address = reinterpret_cast<void*>(block.about.begin);
  if (block.contents)
    std::free(address);
  else
    ::munmap(address, size_held(block.about.bytes));
}

mutable_bytes block_table::allocate(memory_kind kind, std::uint64_t device, std::size_t bytes,
                                    bool contents) {
  auto held = size_held(bytes);
  auto* address = contents ? std::aligned_alloc(memory_alignment, held) : reserve_addresses(held);
  if (address == nullptr)
    return {};
  auto block = mutable_bytes{static_cast<std::byte*>(address), bytes};
  if (contents)
    poison({block.data(), held});
  auto begin = begin_of(block);
  live_.emplace(begin, held_block{{kind, device, next_number_++, bytes, begin}, contents});
  return block;
}

void block_table::release(std::uintptr_t begin) {
  auto it = live_.find(begin);
  auto block = it->second;
  live_.erase(it);
  if (!block.contents || block.about.bytes > quarantine_bytes / 4) {
    if (block.contents)
      poison({reinterpret_cast<std::byte*>(begin), block.about.bytes});
    give_back(block);
    return;
  }
  poison({reinterpret_cast<std::byte*>(begin), block.about.bytes});
  quarantine_.push_back(block);
  quarantined_ += size_held(block.about.bytes);
  while (quarantined_ > quarantine_bytes) {
    quarantined_ -= size_held(quarantine_.front().about.bytes);
    give_back(quarantine_.front());
    quarantine_.pop_front();
  }
}

void block_table::release_all_of(std::uint64_t device) {
  std::erase_if(live_, [device](const auto& entry) {
    if (entry.second.about.device != device)
      return false;
    give_back(entry.second);
    return true;
  });
}

const memory_allocation* block_table::find(const_bytes range) const noexcept {
  auto it = live_.upper_bound(begin_of(range));
  if (it == live_.begin())
    return nullptr;
  const auto& about = std::prev(it)->second.about;
  return begin_of(range) + range.size() <= about.begin + about.bytes ? &about : nullptr;
}

const memory_allocation* block_table::touched_by(const_bytes range) const noexcept {
  auto it = live_.lower_bound(begin_of(range) + range.size());
  if (range.empty() || it == live_.begin())
    return nullptr;
  const auto& about = std::prev(it)->second.about;
  return about.begin + about.bytes > begin_of(range) ? &about : nullptr;
}

const memory_allocation* block_table::released(const_bytes range) const noexcept {
  for (const auto& block : quarantine_) {
    if (block.about.begin < begin_of(range) + range.size() &&
        begin_of(range) < block.about.begin + block.about.bytes)
      return &block.about;
  }
  return nullptr;
}

std::string block_table::describe(std::uintptr_t begin, std::uintptr_t end) const {
  auto range = const_bytes{reinterpret_cast<const std::byte*>(begin), end - begin};
  if (const auto* block = find(range))
    return name_of(block->kind) + std::to_string(block->number) + ", bytes " +
           std::to_string(begin - block->begin) + " to " + std::to_string(end - block->begin);
  return "host memory, " + std::to_string(end - begin) + " bytes";
}

} // namespace ferry::sim
