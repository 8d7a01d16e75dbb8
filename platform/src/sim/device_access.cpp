// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/device_access.hpp"

#include "sim/gather_group.hpp"
#include "sim/random.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace ferry {
namespace {

/// Whom the current OS thread acts as on one device.
struct acting_as {
  std::weak_ptr<sim_device::state> device;
  const sim_device::state* key = nullptr;
  const sim_machine* machine = nullptr;
  host_thread_id own = {};
  host_thread_id current = {};
};

class acting_table {
public:
  acting_table() = default;
  acting_table(const acting_table&) = delete;
  acting_table& operator=(const acting_table&) = delete;
  ~acting_table() {
    for (const auto& entry : entries_) {
      if (auto device = entry.device.lock())
        device->retire(entry.own);
    }
  }

  [[nodiscard]] acting_as* find(const sim_device::state& device) noexcept {
    for (auto& entry : entries_) {
      if (entry.key == &device && !entry.device.expired())
        return &entry;
    }
    return nullptr;
  }

  [[nodiscard]] acting_as& add(sim_device::state& device, host_thread_id own) {
    std::erase_if(entries_, [](const acting_as& entry) { return entry.device.expired(); });
    entries_.push_back({device.weak_from_this(), &device, device.machine.get(), own, own});
    return entries_.back();
  }

  [[nodiscard]] bool acts_elsewhere(const sim_device::state& device) const noexcept {
    return std::any_of(entries_.begin(), entries_.end(), [&](const acting_as& entry) {
      return entry.machine == device.machine.get() && entry.key != &device &&
             entry.current != entry.own && !entry.device.expired();
    });
  }

private:
  std::vector<acting_as> entries_;
};

thread_local acting_table acting;

/// Returns the first collective before the end of `op` that somebody has not joined, or null.
std::shared_ptr<sim::gather_group> first_incomplete(const sim::operation& op) {
  std::vector<const sim::operation*> open{&op};
  std::set<const sim::operation*> seen;
  std::shared_ptr<sim::gather_group> found;
  auto earliest = std::numeric_limits<std::uint64_t>::max();
  auto look_at = [&](const sim::operation_ref& before) {
    if (before && seen.insert(before.get()).second)
      open.push_back(before.get());
  };
  while (!open.empty()) {
    const auto& next = *open.back();
    open.pop_back();
    look_at(next.previous);
    look_at(next.awaited);
    if (!next.group || next.group->given_up)
      continue;
    if (!next.group->complete() && next.sequence < earliest) {
      found = next.group;
      earliest = next.sequence;
    }
    for (const auto& member : next.group->members)
      look_at(member.op);
  }
  return found;
}

std::string in_words(const_bytes range) {
  return std::to_string(range.size()) + " bytes";
}

} // namespace

sim_device::state::state(std::shared_ptr<sim_machine> joined, std::string_view name,
                         const sim_options& options)
    : machine(std::move(joined)), own(machine->join(name, options)) {}

sim_device::state::~state() {
  machine->leave(own);
}

host_thread_id sim_device::state::acting_thread(const char* call) {
  auto* entry = acting.find(*this);
  if (entry == nullptr)
    entry = &acting.add(*this, add_host("thread " + std::to_string(++own.threads_seen), nullptr));
  if (entry->current == entry->own && acting.acts_elsewhere(*this))
    throw device_error(errc::invalid_argument, call,
                       "the calling thread acts as a host thread of another device; enter one of " +
                           own.traits.name + " first");
  return entry->current;
}

sim::host_state& sim_device::state::caller(const char* call) {
  auto id = acting_thread(call);
  auto it = own.hosts.find(static_cast<std::uint32_t>(id));
  if (it == own.hosts.end())
    throw device_error(errc::stale_handle, call,
                       "the host thread that the caller acts as was destroyed");
  it->second.clock.resolve();
  return it->second;
}

host_thread_id sim_device::state::enter(host_thread_id thread) {
  auto* entry = acting.find(*this);
  if (entry == nullptr)
    entry = &acting.add(*this, add_host("thread " + std::to_string(++own.threads_seen), nullptr));
  return std::exchange(entry->current, thread);
}

void sim_device::state::retire(host_thread_id thread) noexcept {
  auto guard = lock();
  auto it = own.hosts.find(static_cast<std::uint32_t>(thread));
  if (it == own.hosts.end())
    return;
  machine->give_back(it->second.self, it->second.clock);
  own.hosts.erase(it);
}

host_thread_id sim_device::state::add_host(std::string_view name, const sim::host_state* parent) {
  auto id = host_thread_id{own.next_id++};
  auto host = sim::host_state{};
  host.id = id;
  host.facts = std::make_shared<sim::control_facts>(std::string(name), false);
  if (parent != nullptr) {
    host.clock = parent->clock;
    host.time = parent->time;
  }
  auto before = machine->take_component();
  host.self = before.who;
  host.clock.raise(before);
  own.hosts.emplace(static_cast<std::uint32_t>(id), std::move(host));
  return id;
}

sim::stream_state& sim_device::state::stream(stream_id id, const char* call) {
  auto it = own.streams.find(static_cast<std::uint32_t>(id));
  if (it == own.streams.end())
    throw device_error(errc::stale_handle, call,
                       "stream " + std::to_string(static_cast<std::uint32_t>(id)) +
                           " does not exist or was destroyed");
  it->second.clock.resolve();
  return it->second;
}

sim::event_version& sim_device::state::event(event_id id, const char* call) {
  auto it = own.events.find(static_cast<std::uint32_t>(id));
  if (it == own.events.end())
    throw device_error(errc::stale_handle, call,
                       "event " + std::to_string(static_cast<std::uint32_t>(id)) +
                           " does not exist or was destroyed");
  return it->second;
}

sim::operation_ref sim_device::state::enqueue(sim::host_state& host, sim::stream_state& on,
                                              sim::operation_role role,
                                              const operation_span& span) {
  auto op = std::make_shared<sim::operation>();
  op->role = role;
  op->span = span;
  op->span.stream = on.id;
  op->span.enqueued = host.time;
  op->stream = on.facts;
  op->sequence = machine->next_sequence++;
  op->device = own.index;
  op->enqueued = host.clock.tick(host.self);
  on.clock.join(host.clock);
  op->key = sim::mix(on.key, ++on.entries);
  op->earliest = host.time;
  op->previous = on.tail;
  if (role == sim::operation_role::work) {
    op->number = ++on.operations;
    on.clock.tick(on.self);
  }
  op->when = {on.self, on.clock.at(on.self)};
  return op;
}

void sim_device::state::submit(sim::host_state& host, sim::stream_state& on,
                               const sim::operation_ref& op) {
  constexpr std::uint64_t most_unasked = 1024;
  on.tail = op;
  machine->times.add(op);
  machine->bytes.add(*on.queue, op);
  if (++host.enqueued_unasked >= most_unasked) {
    host.enqueued_unasked = 0;
    machine->times.evaluate(host.clock);
  }
}

void sim_device::state::access(const sim::operation& op, const char* kind,
                               const sim::stream_state& on, const sim::host_state& host,
                               const_bytes range, bool writes) {
  auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  auto made = std::make_shared<const sim::access_record>(
      sim::access_record{kind, op.span.tag, on.facts, host.facts, op.number, begin,
                         begin + range.size(), writes, op.when});
  machine->enter_access(made, on.clock, own.options.race_limit);
}

void sim_device::state::host_access(sim::host_state& host, const char* kind, const_bytes range,
                                    bool writes, operation_tag tag) {
  auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  auto when = host.clock.tick(host.self);
  auto made = std::make_shared<const sim::access_record>(
      sim::access_record{kind, tag, host.facts, host.facts, ++host.accesses, begin,
                         begin + range.size(), writes, when});
  machine->enter_access(made, host.clock, own.options.race_limit);
}

void sim_device::state::forget_accesses(const_bytes range) {
  auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  machine->shadow.forget(begin, begin + range.size());
}

void sim_device::state::learn(sim::host_state& host, const sim::vector_clock& knowledge) {
  host.clock.join(knowledge);
  host.clock.resolve();
  machine->bytes.run_known(host.clock);
}

void sim_device::state::wait_for(std::unique_lock<std::mutex>& guard, sim::host_state& host,
                                 const sim::operation_ref& op, const sim::vector_clock& knowledge) {
  auto wanted = op;
  auto known = knowledge;
  for (;;) {
    known.join(host.clock);
    known.resolve();
    machine->times.evaluate(known);
    if (wanted->timed)
      break;
    wait_for_ranks(guard, *wanted);
  }
  host.enqueued_unasked = 0;
  host.time = std::max(host.time, wanted->span.end);
  learn(host, known);
}

void sim_device::state::settle(std::unique_lock<std::mutex>& guard, const sim::operation_ref& last,
                               sim::vector_clock knowledge) {
  auto wanted = last;
  for (;;) {
    knowledge.resolve();
    machine->bytes.run_known(knowledge);
    if (wanted->ran)
      return;
    wait_for_ranks(guard, *wanted);
  }
}

void sim_device::state::wait_for_ranks(std::unique_lock<std::mutex>& guard,
                                       const sim::operation& op) {
  auto blocking = first_incomplete(op);
  FERRY_ASSERT(blocking != nullptr);
  auto owner = blocking->owner.lock();
  auto patience = owner ? owner->patience : nanoseconds::zero();
  auto deadline = std::chrono::steady_clock::now() + patience;
  auto over = [&] { return blocking->complete() || blocking->given_up; };
  if (machine->somebody_arrived.wait_until(guard, deadline, over))
    return;
  FERRY_ASSERT(owner != nullptr);
  owner->expire(*blocking);
}

bool sim_device::state::forgotten(wait_edge edge) {
  if (!machine->edges_seen.contains(std::string_view(edge.name)))
    machine->edges_seen.emplace(edge.name);
  return machine->edges_forgotten.contains(std::string_view(edge.name));
}

void sim_device::state::require_memory(const char* call, const char* side, const_bytes range,
                                       memory_kind kind) const {
  if (range.empty())
    return;
  require_not_released(call, range);
  auto allocated_here = kind == memory_kind::device || kind == memory_kind::pinned;
  if (allocated_here) {
    const auto* block = machine->blocks.find(range);
    if (block == nullptr || block->kind != kind || block->device != own.index)
      throw device_error(errc::invalid_argument, call,
                         std::string(side) + ", " + in_words(range) +
                             ", is not inside one allocation of " +
                             (kind == memory_kind::device ? "device" : "pinned") + " memory of " +
                             own.traits.name);
    return;
  }
  if (kind == memory_kind::registered) {
    if (own.registered.find(range) == nullptr)
      throw device_error(errc::invalid_argument, call,
                         std::string(side) + ", " + in_words(range) +
                             ", is not inside one registration of " + own.traits.name);
    return;
  }
  const auto* block = machine->blocks.touched_by(range);
  if (block != nullptr && block->kind == memory_kind::device)
    throw device_error(errc::invalid_argument, call,
                       std::string(side) + ", " + in_words(range) +
                           ", is said to be host memory but is device block " +
                           std::to_string(block->number));
}

void sim_device::state::require_not_released(const char* call, const_bytes range) const {
  if (const auto* block = machine->blocks.released(range))
    throw device_error(errc::invalid_argument, call,
                       in_words(range) + " are in " +
                           (block->kind == memory_kind::device ? "device" : "pinned") + " block " +
                           std::to_string(block->number) + ", which was released");
}

} // namespace ferry
