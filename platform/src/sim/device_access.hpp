// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/sim_device.hpp"
#include "sim/machine.hpp"

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

namespace ferry {

/// What the members of `sim_device` are made of. Everything but `enter` and `retire` is called
/// with the machine's lock held.
class sim_device::state : public std::enable_shared_from_this<sim_device::state> {
public:
  state(std::shared_ptr<sim_machine> joined, std::string_view name, const sim_options& options);
  ~state();

  [[nodiscard]] std::unique_lock<std::mutex> lock() const {
    return std::unique_lock{machine->mutex};
  }

  /// Returns the host thread that the calling thread acts as.
  [[nodiscard]] sim::host_state& caller(const char* call);
  [[nodiscard]] sim::stream_state& stream(stream_id id, const char* call);
  [[nodiscard]] sim::event_version& event(event_id id, const char* call);

  host_thread_id enter(host_thread_id thread);
  void retire(host_thread_id thread) noexcept;
  host_thread_id add_host(std::string_view name, const sim::host_state* parent);

  /// Appends an entry to a stream, ordered after what its caller knows.
  sim::operation_ref enqueue(sim::host_state& host, sim::stream_state& on, sim::operation_role role,
                             const operation_span& span);
  /// Makes an enqueued operation visible to the clock and to the bytes.
  void submit(sim::host_state& host, sim::stream_state& on, const sim::operation_ref& op);
  void access(const sim::operation& op, const char* kind, const sim::stream_state& on,
              const sim::host_state& host, const_bytes range, bool writes);
  void host_access(sim::host_state& host, const char* kind, const_bytes range, bool writes,
                   operation_tag tag);
  /// Forgets who has accessed a range that is no memory any more.
  void forget_accesses(const_bytes range);

  /// Lets `host` know `knowledge` and see its bytes.
  void learn(sim::host_state& host, const sim::vector_clock& knowledge);
  /// As above, and moves the time of `host` to the end of `op`.
  void wait_for(std::unique_lock<std::mutex>& guard, sim::host_state& host,
                const sim::operation_ref& op, const sim::vector_clock& knowledge);
  /// Runs the bytes of all that `knowledge` knows, `last` included.
  void settle(std::unique_lock<std::mutex>& guard, const sim::operation_ref& last,
              sim::vector_clock knowledge);
  /// Notes the use of an edge. Returns whether it is to be ignored.
  [[nodiscard]] bool forgotten(wait_edge edge);

  void require_memory(const char* call, const char* side, const_bytes range,
                      memory_kind kind) const;
  void require_not_released(const char* call, const_bytes range) const;

  const std::shared_ptr<sim_machine> machine;
  sim::device_state& own;

private:
  /// Waits until more ranks have joined the collective that holds up `op`.
  /// @throws device_error `deadline_exceeded`
  void wait_for_ranks(std::unique_lock<std::mutex>& guard, const sim::operation& op);
  [[nodiscard]] host_thread_id acting_thread(const char* call);
};

} // namespace ferry
