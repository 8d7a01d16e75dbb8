// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/directory_store.hpp"

#include <ferry/platform/error.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

namespace ferry::test {

directory_store::directory_store(std::filesystem::path directory)
    : directory_(std::move(directory)) {}

bool directory_store::offer(const std::string& key, const_bytes value) {
  static std::atomic<int> written = 0;
  const auto draft =
      directory_ / ("draft." + std::to_string(::getpid()) + "." + std::to_string(++written));
  {
    std::ofstream file(draft, std::ios::binary);
    file.write(reinterpret_cast<const char*>(value.data()),
               static_cast<std::streamsize>(value.size()));
  }
  // A link appears whole or, if the name is taken, not at all.
  const auto first = ::link(draft.c_str(), file_of(key).c_str()) == 0;
  std::filesystem::remove(draft);
  return first;
}

bool directory_store::await(std::span<const std::string> keys, nanoseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto all_there = [&] {
    return std::ranges::all_of(
        keys, [&](const auto& key) { return std::filesystem::exists(file_of(key)); });
  };
  while (!all_there()) {
    if (std::chrono::steady_clock::now() >= deadline)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::vector<std::byte> directory_store::read(const std::string& key) {
  std::ifstream file(file_of(key), std::ios::binary);
  FERRY_ASSERT(file.is_open());
  const auto text = std::string(std::istreambuf_iterator<char>(file), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::filesystem::path directory_store::file_of(const std::string& key) const {
  auto name = key;
  std::ranges::replace(name, '/', '+');
  return directory_ / ("key." + name);
}

} // namespace ferry::test
