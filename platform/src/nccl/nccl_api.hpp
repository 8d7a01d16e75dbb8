// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/error.hpp"

#include <nccl.h>

#include <functional>
#include <string>
#include <string_view>

/// The calls that Ferry makes, and no others.
#define FERRY_NCCL_CALLS(CALL)                                                                     \
  CALL(ncclGetVersion)                                                                             \
  CALL(ncclGetErrorString)                                                                         \
  CALL(ncclGetLastError)                                                                           \
  CALL(ncclGetUniqueId)                                                                            \
  CALL(ncclCommInitRankConfig)                                                                     \
  CALL(ncclCommGetAsyncError)                                                                      \
  CALL(ncclAllGather)                                                                              \
  CALL(ncclCommFinalize)                                                                           \
  CALL(ncclCommDestroy)                                                                            \
  CALL(ncclCommAbort)

namespace ferry::nccl {

/// NCCL as a table of its functions, by their own names. A test fills one with a fake.
struct api {
#define FERRY_NCCL_DECLARE(name) decltype(&::name) name = nullptr;
  FERRY_NCCL_CALLS(FERRY_NCCL_DECLARE)
#undef FERRY_NCCL_DECLARE
};

/// Returns the address of a symbol, or null.
using symbol_lookup = std::function<void*(const char* name)>;

/// Fills a table from a library.
/// @return `unsupported` with the first symbol that is missing
[[nodiscard]] result<api> fill_api(const symbol_lookup& look_up, std::string_view library);

/// Loads the library, whether there is a driver or not: the one in the process already, which is
/// libtorch's, else from a directory between colons in `dirs`, else by the loader's path. It stays.
/// @return `unsupported` with what was missing and where it was looked for
[[nodiscard]] result<api> load_api(const std::string& library, std::string_view dirs);

/// Loads NCCL once in a process.
/// @return as of `load_api`; `unsupported` for a version without non-blocking communicators
[[nodiscard]] const result<api>& loaded_api();

/// Returns a version as people write it: `2.28.9`.
[[nodiscard]] std::string version_text(int code);

/// Returns the version of the library, unless it will not do.
[[nodiscard]] result<int> usable_version(const api& library);

} // namespace ferry::nccl
