// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace ferry {

/// A thread for calls that may never return. Whoever makes one waits only so long. A thread that is
/// stuck is left behind with what it works on; any other ends with this object.
class patient_thread {
public:
  patient_thread();
  patient_thread(const patient_thread&) = delete;
  patient_thread& operator=(const patient_thread&) = delete;
  ~patient_thread();

  /// Runs `work` behind all earlier work, and returns what it returns or throws what it throws.
  /// Nothing, if that takes longer than `patience`. `work` owns all that it touches.
  template <class Work>
  [[nodiscard]] std::optional<std::invoke_result_t<Work>> call(Work work, nanoseconds patience) {
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Work>()>>(std::move(work));
    auto answer = task->get_future();
    push([task] { (*task)(); });
    if (answer.wait_for(patience) != std::future_status::ready)
      return std::nullopt;
    return answer.get();
  }

private:
  struct shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool busy = false;
    bool stopping = false;
  };

  void push(std::function<void()> work);
  static void run(const std::shared_ptr<shared>& state);

  std::shared_ptr<shared> state_;
  std::thread thread_;
};

} // namespace ferry
