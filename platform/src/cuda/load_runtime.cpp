// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/runtime_api.hpp"
#include "shared_library.hpp"

#include <dlfcn.h>

#include <string>

// Through a second macro, so that a name that is itself a macro is spelt as the library has it.
#define FERRY_SPELT(name) #name
#define FERRY_SYMBOL(name) FERRY_SPELT(name)

namespace ferry::cuda {
namespace {

const std::string soname = "libcudart.so." + std::to_string(CUDART_VERSION / 1000);

void* open_driver() noexcept {
  static auto* const opened = ::dlopen("libcuda.so.1", RTLD_NOW);
  return opened;
}

} // namespace

result<runtime_api> fill_runtime(const symbol_lookup& look_up, std::string_view library) {
  runtime_api filled;
  const char* missing = nullptr;
#define FERRY_CUDA_FILL(name)                                                                      \
  filled.name = reinterpret_cast<decltype(filled.name)>(look_up(FERRY_SYMBOL(name)));              \
  if (filled.name == nullptr && missing == nullptr)                                                \
    missing = FERRY_SYMBOL(name);
  FERRY_CUDA_CALLS(FERRY_CUDA_FILL)
#undef FERRY_CUDA_FILL
  if (missing == nullptr)
    return filled;
  return tl::unexpected(failure{.code = errc::unsupported,
                                .detail = std::string(library) + " has no " + missing +
                                          "; it is another version than the one that Ferry was "
                                          "built with"});
}

result<runtime_api> load_runtime() {
  const auto library = open_shared_library(soname, FERRY_CUDA_LIBRARY_DIRS);
  if (!library)
    return tl::unexpected(
        failure{.code = errc::unsupported,
                .detail = "the CUDA runtime library " + library.error() +
                          "; install it or put its directory in LD_LIBRARY_PATH"});
  auto filled = fill_runtime([&](const char* name) { return ::dlsym(*library, name); }, soname);
  if (auto* const driver = open_driver(); filled && driver != nullptr)
    filled->cuDevicePrimaryCtxGetState =
        reinterpret_cast<decltype(filled->cuDevicePrimaryCtxGetState)>(
            ::dlsym(driver, FERRY_SYMBOL(cuDevicePrimaryCtxGetState)));
  return filled;
}

bool driver_present() noexcept {
  return open_driver() != nullptr;
}

} // namespace ferry::cuda
