// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "patient_thread.hpp"

#include <chrono>

namespace ferry {
namespace {

/// How long the end waits for a call that may be about to return.
constexpr auto last_chance = std::chrono::seconds(1);

} // namespace

patient_thread::patient_thread()
    : state_(std::make_shared<shared>()), thread_([state = state_] { run(state); }) {}

patient_thread::~patient_thread() {
  auto lock = std::unique_lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  const auto free = state_->changed.wait_for(
      lock, last_chance, [this] { return state_->work.empty() && !state_->busy; });
  lock.unlock();
  if (free)
    thread_.join();
  else
    thread_.detach();
}

void patient_thread::push(std::function<void()> work) {
  {
    const auto lock = std::scoped_lock(state_->mutex);
    state_->work.push_back(std::move(work));
  }
  state_->changed.notify_all();
}

void patient_thread::run(const std::shared_ptr<shared>& state) {
  auto lock = std::unique_lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->stopping || !state->work.empty(); });
    if (state->work.empty())
      return;
    auto next = std::move(state->work.front());
    state->work.pop_front();
    state->busy = true;
    lock.unlock();
    next();
    next = nullptr;
    lock.lock();
    state->busy = false;
    state->changed.notify_all();
  }
}

} // namespace ferry
