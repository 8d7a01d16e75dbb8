// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/messages/caf.hpp"

#include <utility>

namespace ferry {
namespace {

class start_hook final : public caf::thread_hook {
public:
  explicit start_hook(std::function<void()> started) : started_(std::move(started)) {}

  void init(caf::actor_system&) override {}
#if FERRY_CAF_GENERATION >= 18
  void thread_started(caf::thread_owner) override { started_(); }
#else
  void thread_started() override { started_(); }
#endif
  void thread_terminates() override {}

private:
  std::function<void()> started_;
};

} // namespace

void on_each_thread(caf::actor_system_config& config, std::function<void()> started) {
  config.add_thread_hook<start_hook>(std::move(started));
}

std::function<std::chrono::nanoseconds()>& sending_clock() noexcept {
  thread_local std::function<std::chrono::nanoseconds()> clock;
  return clock;
}

} // namespace ferry
