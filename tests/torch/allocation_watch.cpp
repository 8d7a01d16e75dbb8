// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "allocation_watch.hpp"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace {

bool watching = false;
std::size_t seen = 0;
std::size_t held = 0;
std::size_t failing = 0;

} // namespace

void* operator new(std::size_t bytes) {
  if (watching && seen++ == failing)
    throw std::bad_alloc();
  void* made = std::malloc(bytes);
  if (made == nullptr)
    throw std::bad_alloc();
  if (watching)
    held += malloc_usable_size(made);
  return made;
}

void operator delete(void* memory) noexcept {
  if (watching)
    held -= malloc_usable_size(memory);
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  ::operator delete(memory);
}

namespace ferry::test {

allocation_watch::allocation_watch(std::size_t fail_at) {
  seen = 0;
  held = 0;
  failing = fail_at;
  watching = true;
}

allocation_watch::~allocation_watch() {
  watching = false;
}

std::size_t allocation_watch::count() const noexcept {
  return seen;
}

std::size_t allocation_watch::bytes() const noexcept {
  return held;
}

bool allocation_watch::failed() const noexcept {
  return seen > failing;
}

} // namespace ferry::test
