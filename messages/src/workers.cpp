// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/messages/caf.hpp"

#if FERRY_CAF_GENERATION == 17
#  include <caf/execution_unit.hpp>
#  include <caf/policy/unprofiled.hpp>
#  include <caf/resumable.hpp>
#  include <caf/scheduler/coordinator.hpp>

#  include <condition_variable>
#  include <deque>
#  include <mutex>
#  include <thread>

namespace ferry {
namespace {

/// Work sharing that wakes a worker only if one sleeps, and only after it has let go of the lock.
/// CAF's own notifies under the lock: where threads outnumber cores, the worker then runs into the
/// lock and has to be switched away and back, for every message.
class considerate_sharing : public caf::policy::unprofiled {
public:
  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}

    std::deque<caf::resumable*> queue;
    std::size_t sleepers = 0;
    std::mutex lock;
    std::condition_variable filled;
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    auto& shared = d(self);
    auto wake = false;
    {
      const std::lock_guard guard{shared.lock};
      shared.queue.push_back(job);
      wake = shared.sleepers != 0;
    }
    if (wake)
      shared.filled.notify_one();
  }

  template <class Coordinator>
  caf::resumable* dequeue(Coordinator* self) {
    auto& shared = d(self);
    std::unique_lock guard{shared.lock};
    if (shared.queue.empty()) {
      ++shared.sleepers;
      shared.filled.wait(guard, [&] { return !shared.queue.empty(); });
      --shared.sleepers;
    }
    auto* const job = shared.queue.front();
    shared.queue.pop_front();
    return job;
  }

  template <class Worker, class Function>
  void foreach_resumable(Worker*, Function) {}

  template <class Coordinator, class Function>
  void foreach_central_resumable(Coordinator* self, Function visit) {
    auto& shared = d(self);
    const std::lock_guard guard{shared.lock};
    for (auto* const job : shared.queue)
      visit(job);
    shared.queue.clear();
  }
};

} // namespace
} // namespace ferry

namespace caf::scheduler {

/// A worker without the book-keeping for CAF's log, which is compiled out of the library.
template <>
class worker<ferry::considerate_sharing> final : public execution_unit {
public:
  using coordinator_ptr = coordinator<ferry::considerate_sharing>*;
  struct policy_data {
    explicit policy_data(abstract_coordinator*) {}
  };

  worker(std::size_t, coordinator_ptr parent, const policy_data&, std::size_t throughput)
      : execution_unit(&parent->system()), parent_(parent), throughput_(throughput) {}

  void start();
  void external_enqueue(resumable* job);
  void exec_later(resumable* job) override { external_enqueue(job); }
  std::thread& get_thread() noexcept { return thread_; }

private:
  void run();

  coordinator_ptr parent_;
  std::size_t throughput_;
  ferry::considerate_sharing policy_;
  std::thread thread_;
};

void worker<ferry::considerate_sharing>::start() {
  thread_ = std::thread{[this] {
    caf::detail::set_thread_name("ferry.worker");
    system().thread_started();
    run();
    system().thread_terminates();
  }};
}

void worker<ferry::considerate_sharing>::external_enqueue(resumable* job) {
  policy_.central_enqueue(parent_, job);
}

void worker<ferry::considerate_sharing>::run() {
  for (;;) {
    auto* const job = policy_.dequeue(parent_);
    switch (job->resume(this, throughput_)) {
      case resumable::resume_later:
        external_enqueue(job);
        break;
      case resumable::done:
      case resumable::awaiting_message:
        intrusive_ptr_release(job);
        break;
      case resumable::shutdown_execution_unit:
        return;
    }
  }
}

} // namespace caf::scheduler

namespace ferry {

void use_workers(caf::actor_system_config& config, std::size_t workers) {
  config.set("scheduler.max-threads", workers);
  config.load<caf::scheduler::coordinator<considerate_sharing>>();
}

} // namespace ferry

#else

namespace ferry {

void use_workers(caf::actor_system_config& config, std::size_t workers) {
  config.set("caf.scheduler.max-threads", workers);
  config.set("caf.scheduler.policy", "sharing");
}

} // namespace ferry

#endif
