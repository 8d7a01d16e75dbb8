// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl/nccl_api.hpp"

#include "ferry/platform/nccl_communicator.hpp"
#include "nccl/nccl_check.hpp"
#include "shared_library.hpp"

#include <dlfcn.h>

#include <utility>

namespace ferry::nccl {
namespace {

const std::string soname = "libnccl.so." + std::to_string(NCCL_MAJOR);

/// The first with communicators that do not block.
constexpr int oldest = NCCL_VERSION(2, 14, 0);

result<api> load_usable() {
  auto loaded = load_api(soname, FERRY_NCCL_LIBRARY_DIRS);
  if (!loaded)
    return loaded;
  if (auto version = usable_version(*loaded); !version)
    return tl::unexpected(version.error());
  return loaded;
}

} // namespace

result<api> fill_api(const symbol_lookup& look_up, std::string_view library) {
  api filled;
  const char* missing = nullptr;
#define FERRY_NCCL_FILL(name)                                                                      \
  filled.name = reinterpret_cast<decltype(filled.name)>(look_up(#name));                           \
  if (filled.name == nullptr && missing == nullptr)                                                \
    missing = #name;
  FERRY_NCCL_CALLS(FERRY_NCCL_FILL)
#undef FERRY_NCCL_FILL
  if (missing == nullptr)
    return filled;
  return tl::unexpected(failure{.code = errc::unsupported,
                                .detail = std::string(library) + " has no " + missing + "; NCCL " +
                                          version_text(oldest) + " or later is needed"});
}

result<api> load_api(const std::string& library, std::string_view dirs) {
  const auto opened = open_shared_library(library, dirs);
  if (!opened)
    return tl::unexpected(failure{
        .code = errc::unsupported,
        .detail = "the NCCL library " + opened.error() +
                  "; ranks on GPUs need it: install it or put its directory in LD_LIBRARY_PATH"});
  return fill_api([&](const char* name) { return ::dlsym(*opened, name); }, library);
}

const result<api>& loaded_api() {
  static const auto loaded = load_usable();
  return loaded;
}

std::string version_text(int code) {
  constexpr int first_long = 10'000; // NCCL_VERSION: of 2.9 and later.
  const auto major = code < first_long ? code / 1000 : code / 10'000;
  const auto minor = code < first_long ? code % 1000 / 100 : code % 10'000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
}

result<int> usable_version(const api& library) {
  auto code = 0;
  if (const auto said = library.ncclGetVersion(&code); said != ncclSuccess)
    return tl::unexpected(failed_call(library, "ncclGetVersion", said));
  if (code >= oldest && code / 10'000 == NCCL_MAJOR)
    return code;
  return tl::unexpected(failure{
      .code = errc::unsupported,
      .detail = "NCCL is of version " + version_text(code) + "; expected " + version_text(oldest) +
                " or later with major version " + std::to_string(NCCL_MAJOR)});
}

} // namespace ferry::nccl

namespace ferry {

result<std::string> nccl_version() {
  const auto& loaded = nccl::loaded_api();
  if (!loaded)
    return tl::unexpected(loaded.error());
  return nccl::usable_version(*loaded).map(nccl::version_text);
}

} // namespace ferry
