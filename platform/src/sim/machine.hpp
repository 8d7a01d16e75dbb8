// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/race.hpp"
#include "ferry/platform/sim_device.hpp"
#include "sim/blocks.hpp"
#include "sim/byte_runner.hpp"
#include "sim/clock.hpp"
#include "sim/faults.hpp"
#include "sim/operation.hpp"
#include "sim/page_table.hpp"
#include "sim/schedule.hpp"
#include "sim/shadow.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ferry::sim {

struct stream_state {
  stream_id id;
  std::shared_ptr<const control_facts> facts;
  component self = 0;
  vector_clock clock;
  operation_ref tail;
  std::shared_ptr<byte_queue> queue;
  std::uint64_t key = 0; ///< From the names alone, so that it is the same in every run.
  std::uint64_t operations = 0;
  std::uint64_t entries = 0;
};

/// What an event stands for: one record of it.
struct event_version {
  vector_clock clock;
  operation_ref record; ///< Null until the event is recorded.
};

struct host_state {
  host_thread_id id;
  std::shared_ptr<const control_facts> facts;
  component self = 0;
  vector_clock clock;
  nanoseconds time = nanoseconds::zero();
  std::uint64_t accesses = 0;
  std::uint64_t enqueued_unasked = 0; ///< Operations since it last asked for a time.
};

/// Travels inside a `causal_stamp`.
struct stamp_contents {
  const sim_machine* machine = nullptr;
  component sender = 0;
  vector_clock clock;
  nanoseconds time = nanoseconds::zero();
};

/// One device of a machine, guarded by the machine's lock.
struct device_state {
  device_state(std::uint64_t position, std::string_view device_name, const sim_options& chosen);

  std::uint64_t index;
  sim_options options;
  device_traits traits;
  device_counters counters;
  page_table registered;
  fault_plan faults;
  std::shared_ptr<link> h2d = std::make_shared<link>();
  std::shared_ptr<link> d2h = std::make_shared<link>();
  std::unordered_map<std::uint32_t, stream_state> streams;
  std::unordered_map<std::uint32_t, event_version> events;
  std::unordered_map<std::uint32_t, host_state> hosts;
  std::map<std::string, std::uint64_t> streams_named;
  std::uint32_t next_id = 1;
  std::uint64_t threads_seen = 0;
  std::vector<operation_observer*> observers;
  std::deque<timeline_entry> timeline;
};

} // namespace ferry::sim

namespace ferry {

class sim_machine {
public:
  sim_machine(std::uint64_t seed_of_all, std::size_t pending_limit);
  ~sim_machine();

  [[nodiscard]] sim::device_state& join(std::string_view name, const sim_options& options);
  void leave(sim::device_state& device) noexcept;

  /// Returns a component that nobody uses, and the step its last user came to.
  [[nodiscard]] sim::epoch take_component();
  void give_back(sim::component free, const sim::vector_clock& last);

  /// Checks an access against everything before it, and remembers it.
  void enter_access(const sim::access_ref& access, const sim::vector_clock& known,
                    std::size_t race_limit);

  /// Returns the races kept and how many there were, having decided what could be decided.
  [[nodiscard]] const std::vector<race>& races();
  [[nodiscard]] std::uint64_t race_count();

  void advance(nanoseconds span);

  std::mutex mutex;
  const std::uint64_t seed;
  sim::schedule times;
  sim::byte_runner bytes;
  sim::shadow_memory shadow;
  sim::block_table blocks;
  std::condition_variable somebody_arrived; ///< A collective is complete or given up.
  std::set<std::string, std::less<>> edges_seen;
  std::set<std::string, std::less<>> edges_forgotten;
  std::uint64_t next_sequence = 1;

private:
  /// A conflict that a collective under way may yet turn out to order.
  struct open_conflict {
    sim::conflict found;
    sim::access_ref second;
    sim::vector_clock known;
    std::size_t race_limit;
  };

  void add_race(const open_conflict& decided);
  void decide_open();
  void on_timed(const sim::operation& op);
  void drop_history();

  std::map<std::uint64_t, std::unique_ptr<sim::device_state>> devices_;
  std::uint64_t next_device_ = 0;
  std::deque<sim::epoch> free_components_;
  sim::component next_component_ = 0;
  std::vector<sim::conflict> conflicts_;
  std::vector<open_conflict> open_;
  std::vector<race> races_;
  std::uint64_t race_count_ = 0;
  std::size_t cells_to_drop_at_ = 4096;
};

} // namespace ferry
