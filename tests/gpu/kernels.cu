// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu/kernels.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace ferry::test {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned most_groups = 1024;

__device__ unsigned long long nanoseconds_now() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin_kernel(unsigned long long span) {
  const auto start = nanoseconds_now();
  while (nanoseconds_now() - start < span) {
  }
}

__global__ void fill_kernel(unsigned char* bytes, std::size_t count, unsigned char value) {
  const auto step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    bytes[i] = value;
}

__global__ void count_kernel(const unsigned char* bytes, std::size_t count, unsigned char value,
                             unsigned long long* others) {
  const auto step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned long long own = 0;
  for (auto i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    own += bytes[i] != value ? 1 : 0;
  if (own != 0)
    atomicAdd(others, own);
}

__global__ void churn_kernel(const uint4* words, std::size_t count, int rounds, unsigned* sink) {
  const auto step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned own = 0;
  for (int round = 0; round < rounds; ++round)
    for (auto i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += step) {
      const auto word = __ldcg(words + i); // Past the first cache, so that each round reads again.
      own ^= word.x + word.y + word.z + word.w + static_cast<unsigned>(round);
    }
  if (own == 0xdeadbeefU) // Keeps the reads from being left out; never mind what comes of it.
    *sink = own;
}

__global__ void stray_kernel(unsigned* nowhere) { *nowhere = 1; }

void check(const char* call, cudaError_t status) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}

unsigned groups_for(std::size_t count) {
  const auto wanted = (count + threads - 1) / threads;
  return static_cast<unsigned>(wanted < 1 ? 1 : wanted < most_groups ? wanted : most_groups);
}

} // namespace

void spin(void* stream, std::chrono::nanoseconds span) {
  spin_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<unsigned long long>(span.count()));
  check("spin", cudaGetLastError());
}

void fill(void* stream, void* bytes, std::size_t count, unsigned char value) {
  fill_kernel<<<groups_for(count), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<unsigned char*>(bytes), count, value);
  check("fill", cudaGetLastError());
}

void count_others(void* stream, const void* bytes, std::size_t count, unsigned char value,
                  unsigned long long* others) {
  count_kernel<<<groups_for(count), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const unsigned char*>(bytes), count, value, others);
  check("count_others", cudaGetLastError());
}

void churn(void* stream, const void* bytes, std::size_t count, int rounds, unsigned* sink) {
  churn_kernel<<<most_groups, threads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(bytes), count / sizeof(uint4), rounds, sink);
  check("churn", cudaGetLastError());
}

void stray(void* stream) {
  constexpr std::uintptr_t nowhere = 64;
  stray_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<unsigned*>(nowhere));
  check("stray", cudaGetLastError());
}

void load_kernels() {
  spin(nullptr, {});
  fill(nullptr, nullptr, 0, 0);
  count_others(nullptr, nullptr, 0, 0, nullptr);
  churn(nullptr, nullptr, 0, 0, nullptr);
  check("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

void begin_capture(void* stream) {
  check("cudaStreamBeginCapture",
        cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeRelaxed));
}

void end_capture(void* stream) {
  cudaGraph_t graph = nullptr;
  check("cudaStreamEndCapture", cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph));
  check("cudaGraphDestroy", cudaGraphDestroy(graph));
}

void* host_alloc(std::size_t bytes) {
  void* memory = nullptr;
  check("cudaHostAlloc", cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
  return memory;
}

void host_free(void* memory) {
  check("cudaFreeHost", cudaFreeHost(memory));
}

} // namespace ferry::test
