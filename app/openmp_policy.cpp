// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// libtorch's OpenMP threads spin after each parallel region, and take the cores that the copy
// threads need: a streamed step took up to five times as long on two cores. OpenMP reads its
// environment while it is loaded, before main, so this runs before any library is initialised.

#include <cstdlib>

namespace {

void let_openmp_threads_sleep() {
  if (std::getenv("GOMP_SPINCOUNT") == nullptr)
    setenv("OMP_WAIT_POLICY", "passive", 0);
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)() = let_openmp_threads_sleep;

} // namespace
