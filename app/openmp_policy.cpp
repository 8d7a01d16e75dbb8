// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// libtorch's OpenMP threads spin for milliseconds after each parallel region, and keep the cores
// from the copy threads: on two cores a streamed step then takes a fifth longer every now and then.
// Put to sleep at once they lose what waking them takes, which for small operations is half of the
// time. So they spin for some ten microseconds (docs/performance.md).
//
// OpenMP reads its environment while it is loaded, before main. What is set before that is lost:
// the C library begins with the environment that the process was given. So the program starts
// itself anew with one that says it, before any library is initialised, which takes milliseconds.

#include <limits.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace {

constexpr auto spin_for_a_moment = "GOMP_SPINCOUNT=1000";
constexpr std::size_t most_variables = 4096;

bool says(const char* variable, const char* name) {
  const auto length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

[[gnu::no_sanitize("address", "thread", "undefined")]] void
let_openmp_threads_sleep(int, char** arguments, char** environment) {
  if (::getauxval(AT_BASE) == 0) // The loader was started, with the program's name: it is not said.
    return;
  const char* extended[most_variables + 2];
  std::size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == most_variables || says(environment[count], "OMP_WAIT_POLICY") ||
        says(environment[count], "GOMP_SPINCOUNT"))
      return;
    extended[count] = environment[count];
  }
  extended[count] = spin_for_a_moment;
  extended[count + 1] = nullptr;
  char program[PATH_MAX + 1] = {};
  // Where that fails, the program goes on as it is.
  if (::readlink("/proc/self/exe", program, PATH_MAX) > 0)
    ::execve(program, arguments, const_cast<char**>(extended));
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)(int, char**, char**) = let_openmp_threads_sleep;

} // namespace
