// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/error.hpp"
#include "ferry/platform/key_value_store.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>

namespace ferry {
namespace {

class memory_store final : public key_value_store {
public:
  bool hosted_here() const noexcept override { return false; }

  bool offer(const std::string& key, const_bytes value) override {
    {
      const auto lock = std::scoped_lock(mutex_);
      if (!values_.try_emplace(key, value.begin(), value.end()).second)
        return false;
    }
    written_.notify_all();
    return true;
  }

  bool await(std::span<const std::string> keys, nanoseconds patience) override {
    auto lock = std::unique_lock(mutex_);
    const auto all_there = [&] {
      return std::ranges::all_of(keys, [&](const auto& key) { return values_.contains(key); });
    };
    if (all_there())
      return true;
    const auto before = values_.size();
    written_.wait_for(lock, patience, [&] { return values_.size() != before; });
    return all_there();
  }

  std::vector<std::byte> read(const std::string& key) override {
    const auto lock = std::scoped_lock(mutex_);
    const auto found = values_.find(key);
    FERRY_ASSERT(found != values_.end());
    return found->second;
  }

private:
  std::mutex mutex_;
  std::condition_variable written_;
  std::map<std::string, std::vector<std::byte>> values_;
};

} // namespace

std::shared_ptr<key_value_store> make_memory_store() {
  return std::make_shared<memory_store>();
}

} // namespace ferry
