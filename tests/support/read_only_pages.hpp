// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/memory.hpp>

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>

namespace ferry::test {

/// Whole pages that cannot be written, as those of a mapped file: every byte is `value`.
class read_only_pages {
public:
  explicit read_only_pages(std::size_t pages, unsigned char value = 1)
      : bytes_(pages * page_bytes()) {
    address_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address_ == MAP_FAILED)
      throw std::bad_alloc{};
    std::memset(address_, value, bytes_);
    ::mprotect(address_, bytes_, PROT_READ);
  }
  read_only_pages(const read_only_pages&) = delete;
  read_only_pages& operator=(const read_only_pages&) = delete;
  ~read_only_pages() { ::munmap(address_, bytes_); }

  [[nodiscard]] const_bytes bytes() const noexcept {
    return {static_cast<const std::byte*>(address_), bytes_};
  }
  /// Returns `count` pages from page `first` on.
  [[nodiscard]] const_bytes at(std::size_t first, std::size_t count = 1) const noexcept {
    return bytes().subspan(first * page_bytes(), count * page_bytes());
  }

private:
  std::size_t bytes_;
  void* address_ = nullptr;
};

} // namespace ferry::test
