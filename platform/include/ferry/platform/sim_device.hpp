// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/race.hpp>
#include <ferry/platform/sim_options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// What simulated devices share that can tell each other something: threads of control, memory
/// shadow and randomness. One per device unless several devices join one as ranks.
class sim_machine;

[[nodiscard]] std::shared_ptr<sim_machine> make_sim_machine(std::uint64_t seed);

/// The calls that can be made to fail. A real device can fail each of them.
enum class device_call : std::uint8_t {
  any,
  allocate,
  create_stream,
  create_event,
  copy,
  compute,
  record,
  wait,
  ready,
  synchronize,
  gather,
  register_pages,
  unregister_pages,
  pages_registered,
};

enum class fault_effect : std::uint8_t {
  once,     ///< The call throws; the next one works.
  sticky,   ///< The call throws; every later one throws `device_poisoned`.
  deferred, ///< The call works; the next synchronize throws, and from then on as `sticky`.
  absence,  ///< A gather seems to work, but this rank arrives nowhere any more. Else `sticky`.
  death,    ///< The rank dies in a gather: as `sticky`, and its group fails naming it.
};

/// Makes one call fail.
struct sim_fault {
  device_call call = device_call::any;
  std::uint64_t after = 0; ///< Calls of that kind that still work, from now.
  errc error = errc::device_failure;
  fault_effect effect = fault_effect::once;
};

struct timeline_entry {
  operation_span span;
  std::string stream;
  std::uint64_t number = 0; ///< Counts the operations of the stream from 1.
};

struct sim_allocation {
  memory_kind kind;
  std::uint64_t number; ///< Counts the allocations of the machine from 1; names it in races.
  const_bytes block;
};

/// A device that never forgives a missing wait and whose clock is exact.
///
/// - *Order.* Every stream and host thread is a thread of control with a vector clock. Two accesses
///   to the same bytes that nothing orders are a race, whatever happened to be fast.
/// - *Bytes.* A copy moves nothing when it is enqueued. Synchronizing, settling and host reads run
///   exactly the operations that are ordered before, in an order drawn from the seed. Memory that
///   is fresh, discarded or released holds 0xFF in every byte: NaN in f16, bf16, f32 and f64.
/// - *Time* is modelled: it depends on the options and on what the program orders, not on how its
///   threads were scheduled. It travels with stamps.
///
/// docs/simulator.md says how to prove a pipeline with it. Thread-safe.
class sim_device final : public device {
public:
  explicit sim_device(const sim_options& options);
  /// Joins `machine` as one of several devices. Its seed is the machine's.
  sim_device(std::shared_ptr<sim_machine> machine, std::string_view name,
             const sim_options& options);
  ~sim_device() override;

  // What happened.

  [[nodiscard]] std::uint64_t seed() const noexcept;
  [[nodiscard]] std::vector<race> races() const;
  /// Counts also the races beyond `sim_options::race_limit`.
  [[nodiscard]] std::uint64_t race_count() const;
  /// Returns the latest operations in the order of their start.
  [[nodiscard]] std::vector<timeline_entry> timeline() const;
  [[nodiscard]] std::vector<sim_allocation> allocations() const;

  // Faults.

  void inject(const sim_fault& fault);
  /// Makes the call after `n` more fallible ones fail once with `device_failure`.
  void fail_after(std::uint64_t n);
  /// Takes back what has been injected and not happened. Returns whether any fault had happened
  /// since it was last asked.
  bool cancel_failure() noexcept;
  /// Counts the calls that could have failed.
  [[nodiscard]] std::uint64_t fallible_calls() const noexcept;

  // Order.

  /// Ignores every wait and synchronisation of that name from now on: they order nothing and run
  /// nothing. For tests which show that an edge is needed.
  void forget(std::string_view edge);
  /// Returns the names of all edges that the program has used, sorted.
  [[nodiscard]] std::vector<std::string> edges_seen() const;

  // Control, for tests that pick an interleaving themselves.

  /// Runs the bytes of the next operation of `stream`. Returns false if there is none or it still
  /// has to wait.
  bool step(stream_id stream);
  /// Runs the bytes of everything that has been enqueued.
  void run();
  /// Moves the time of every host thread.
  void advance(nanoseconds span);

  // device

  [[nodiscard]] const device_traits& traits() const noexcept override;
  [[nodiscard]] mutable_bytes allocate(memory_kind kind, std::size_t bytes) override;
  void release(memory_kind kind, mutable_bytes block) noexcept override;
  [[nodiscard]] device_memory memory() const override;
  void register_pages(const_bytes pages) override;
  void unregister_pages(const_bytes pages) override;
  [[nodiscard]] bool pages_registered(const_bytes range) override;
  [[nodiscard]] stream_id create_stream(std::string_view name) override;
  void destroy_stream(stream_id stream) noexcept override;
  [[nodiscard]] event_id create_event() override;
  void destroy_event(event_id event) noexcept override;
  void copy(stream_id stream, const copy_operation& operation) override;
  void populate(stream_id stream, const_bytes pages, operation_tag tag) override;
  void evict(stream_id stream, const_bytes pages, operation_tag tag) override;
  void compute(stream_id stream, const compute_operation& operation) override;
  void discard(stream_id stream, mutable_bytes range, operation_tag tag) override;
  void mark(stream_id stream, operation_tag tag) override;
  void record(stream_id stream, event_id event) override;
  void wait(stream_id stream, event_id event, wait_edge edge) override;
  [[nodiscard]] bool ready(event_id event) override;
  void synchronize(event_id event, wait_edge edge) override;
  void synchronize(stream_id stream, wait_edge edge) override;
  void settle(stream_id stream) override;
  void host_read(const_bytes range, operation_tag tag) override;
  void host_write(mutable_bytes range, operation_tag tag) override;
  [[nodiscard]] host_thread_id create_host_thread(std::string_view name) override;
  void destroy_host_thread(host_thread_id thread) noexcept override;
  host_thread_id enter(host_thread_id thread) noexcept override;
  [[nodiscard]] causal_stamp stamp() override;
  void observe(const causal_stamp& stamp) override;
  void spend(nanoseconds span) override;
  [[nodiscard]] nanoseconds now() override;
  [[nodiscard]] device_counters counters() const override;
  void attach(operation_observer& observer) override;
  void detach(operation_observer& observer) noexcept override;

  class state; ///< Private to the implementation.

private:
  friend class sim_communicator;

  std::shared_ptr<state> state_;
};

} // namespace ferry
