// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <cstddef>

// Work for a real GPU. Everything is enqueued on a `cudaStream_t` of the current device, and has
// not run when the call returns. Throws std::runtime_error with what CUDA says.
namespace ferry::test {

/// Keeps the stream, and hardly anything else of the GPU, busy for `span`.
void spin(void* stream, std::chrono::nanoseconds span);

/// Writes `value` to `count` bytes on the device.
void fill(void* stream, void* bytes, std::size_t count, unsigned char value);

/// Adds to `*others`, on the device, how many of `count` bytes are not `value`.
void count_others(void* stream, const void* bytes, std::size_t count, unsigned char value,
                  unsigned long long* others);

/// Reads `count` bytes on the device `rounds` times, with every multiprocessor: compute that is
/// bound by memory, as the linear layers of a small batch are. `sink` is a word on the device.
void churn(void* stream, const void* bytes, std::size_t count, int rounds, unsigned* sink);

/// Accesses memory that is not there: the device is lost to this process.
void stray(void* stream);

/// Runs each of the others once on nothing, on the current device, and waits: CUDA loads a kernel
/// when it is first launched, which may wait for work that is on its way.
void load_kernels();

/// Begins and ends the capture of `stream` into a graph that is thrown away.
void begin_capture(void* stream);
void end_capture(void* stream);

/// Allocates pinned memory as CUDA does by itself, and gives it back.
[[nodiscard]] void* host_alloc(std::size_t bytes);
void host_free(void* memory);

} // namespace ferry::test
