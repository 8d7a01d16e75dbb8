// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/error.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <string_view>

/// The calls that Ferry makes, and no others.
#define FERRY_CUDA_CALLS(CALL)                                                                     \
  CALL(cudaDriverGetVersion)                                                                       \
  CALL(cudaRuntimeGetVersion)                                                                      \
  CALL(cudaGetDeviceCount)                                                                         \
  CALL(cudaGetDeviceProperties)                                                                    \
  CALL(cudaDeviceGetAttribute)                                                                     \
  CALL(cudaDeviceGetPCIBusId)                                                                      \
  CALL(cudaGetDevice)                                                                              \
  CALL(cudaSetDevice)                                                                              \
  CALL(cudaGetErrorName)                                                                           \
  CALL(cudaGetErrorString)                                                                         \
  CALL(cudaGetLastError)                                                                           \
  CALL(cudaThreadExchangeStreamCaptureMode)                                                        \
  CALL(cudaMalloc)                                                                                 \
  CALL(cudaFree)                                                                                   \
  CALL(cudaMemGetInfo)                                                                             \
  CALL(cudaHostRegister)                                                                           \
  CALL(cudaHostUnregister)                                                                         \
  CALL(cudaPointerGetAttributes)                                                                   \
  CALL(cudaStreamCreateWithFlags)                                                                  \
  CALL(cudaStreamDestroy)                                                                          \
  CALL(cudaStreamIsCapturing)                                                                      \
  CALL(cudaStreamSynchronize)                                                                      \
  CALL(cudaStreamWaitEvent)                                                                        \
  CALL(cudaEventCreateWithFlags)                                                                   \
  CALL(cudaEventDestroy)                                                                           \
  CALL(cudaEventRecord)                                                                            \
  CALL(cudaEventQuery)                                                                             \
  CALL(cudaEventSynchronize)                                                                       \
  CALL(cudaEventElapsedTime)                                                                       \
  CALL(cudaMemcpyAsync)

namespace ferry::cuda {

/// The CUDA runtime as a table of its functions, by their own names. A test fills one with a fake.
struct runtime_api {
#define FERRY_CUDA_DECLARE(name) decltype(&::name) name = nullptr;
  FERRY_CUDA_CALLS(FERRY_CUDA_DECLARE)
#undef FERRY_CUDA_DECLARE
  /// Of the driver's library: the one question that the runtime does not answer. Null: no driver.
  decltype(&::cuDevicePrimaryCtxGetState) cuDevicePrimaryCtxGetState = nullptr;
};

/// Returns the address of a symbol, or null.
using symbol_lookup = std::function<void*(const char* name)>;

/// Fills a table from a library. The symbols are those that the headers name: with some headers a
/// function is a macro for a newer one.
/// @return `unsupported` with the first symbol that is missing
[[nodiscard]] result<runtime_api> fill_runtime(const symbol_lookup& look_up,
                                               std::string_view library);

/// Loads the runtime library, whether there is a driver or not: the one in the process already,
/// else from a directory that was known when Ferry was built, else by the loader's path. It stays.
/// @return `unsupported` with what was missing and where it was looked for
[[nodiscard]] result<runtime_api> load_runtime();

/// Returns whether the driver's library can be loaded; it stays. Without it the runtime can do
/// nothing.
[[nodiscard]] bool driver_present() noexcept;

} // namespace ferry::cuda
