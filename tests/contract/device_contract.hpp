// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// The contract of `device` as test cases. They run for every type that FERRY_DEVICE_SUBJECTS lists,
// which whoever includes this file defines before. A subject opens its device with
// `static std::unique_ptr<ferry::device> open(std::size_t memory)`.

#include <ferry/platform/error.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/stream.hpp>

#include "contract/device_rig.hpp"
#include "support/catch.hpp"
#include "support/read_only_pages.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ferry::test {

template <class Attempt>
[[nodiscard]] std::optional<errc> error_of(const Attempt& attempt) {
  try {
    attempt();
    return std::nullopt;
  } catch (const device_error& error) {
    return error.code();
  }
}

// Order

TEMPLATE_TEST_CASE("operations of one stream run in the order they were enqueued", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto first = pinned(*owner, 1);
  const auto second = pinned(*owner, 2);
  const auto seen_first = pinned(*owner, 0);
  const auto seen_second = pinned(*owner, 0);
  stream queue(*owner, "queue");

  queue.copy(upload(slot, first));
  queue.copy(download(seen_first, slot));
  queue.copy(upload(slot, second));
  queue.copy(download(seen_second, slot));
  queue.synchronize(contract_edge);

  CHECK(holds(*owner, seen_first, 1));
  CHECK(holds(*owner, seen_second, 2));
}

TEMPLATE_TEST_CASE("a stream that waits for an event sees what was enqueued before its record",
                   "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 7);
  const auto seen = pinned(*owner, 0);
  stream copies(*owner, "copies");
  stream compute(*owner, "compute");
  event copied(*owner);

  copies.copy(upload(slot, weights));
  copies.record(copied);
  compute.wait(copied, contract_edge);
  compute.copy(download(seen, slot));
  compute.synchronize(contract_edge);

  CHECK(holds(*owner, seen, 7));
}

TEMPLATE_TEST_CASE("a wait keeps to the record that was current when it was made", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto first = pinned(*owner, 1);
  const auto second = pinned(*owner, 2);
  const auto seen = pinned(*owner, 0);
  stream copies(*owner, "copies");
  stream compute(*owner, "compute");
  event ready(*owner);
  event used(*owner);

  copies.copy(upload(slot, first));
  copies.record(ready);
  compute.wait(ready, contract_edge);
  compute.copy(download(seen, slot));
  compute.record(used);
  copies.wait(used, contract_edge);
  copies.copy(upload(slot, second));
  copies.record(ready);
  compute.synchronize(contract_edge);
  copies.synchronize(contract_edge);

  CHECK(holds(*owner, seen, 1));
}

TEMPLATE_TEST_CASE("an event that was never recorded is ready and holds nothing back", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  stream queue(*owner, "queue");
  event never(*owner);

  queue.wait(never, contract_edge);
  queue.synchronize(contract_edge);
  never.synchronize(contract_edge);

  CHECK(never.ready());
}

TEMPLATE_TEST_CASE("an event recorded on an idle stream is ready once synchronized", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  stream queue(*owner, "queue");
  event recorded(*owner);

  queue.record(recorded);
  recorded.synchronize(contract_edge);

  CHECK(recorded.ready());
}

TEMPLATE_TEST_CASE("synchronizing an event waits for what was enqueued before its record",
                   "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 3);
  const auto seen = pinned(*owner, 0);
  stream queue(*owner, "queue");
  event done(*owner);

  queue.copy(upload(slot, weights));
  queue.copy(download(seen, slot));
  queue.record(done);
  done.synchronize(contract_edge);

  CHECK(done.ready());
  CHECK(holds(*owner, seen, 3));
}

TEMPLATE_TEST_CASE("a stream may wait for its own record", "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 4);
  const auto seen = pinned(*owner, 0);
  stream queue(*owner, "queue");
  event mine(*owner);

  queue.copy(upload(slot, weights));
  queue.record(mine);
  queue.wait(mine, contract_edge);
  queue.copy(download(seen, slot));
  queue.synchronize(contract_edge);

  CHECK(holds(*owner, seen, 4));
}

TEMPLATE_TEST_CASE("an order through many streams is kept", "[contract]", FERRY_DEVICE_SUBJECTS) {
  constexpr std::size_t length = 32;
  const auto owner = TestType::open(contract_memory);
  const auto weights = pinned(*owner, 9);
  const auto seen = pinned(*owner, 0);
  std::vector<memory_block> blocks;
  std::vector<std::unique_ptr<stream>> streams;
  std::vector<std::unique_ptr<event>> events;
  for (std::size_t i = 0; i < length; ++i) {
    blocks.push_back(on_device(*owner));
    streams.push_back(std::make_unique<stream>(*owner, "link " + std::to_string(i)));
    events.push_back(std::make_unique<event>(*owner));
  }

  streams[0]->copy(upload(blocks[0], weights));
  streams[0]->record(*events[0]);
  for (std::size_t i = 1; i < length; ++i) {
    streams[i]->wait(*events[i - 1], contract_edge);
    streams[i]->copy(within(blocks[i], blocks[i - 1]));
    streams[i]->record(*events[i]);
  }
  streams[length - 1]->copy(download(seen, blocks[length - 1]));
  streams[length - 1]->synchronize(contract_edge);

  CHECK(holds(*owner, seen, 9));
}

TEMPLATE_TEST_CASE("where compute runs on the host, settling a stream shows what it waited for",
                   "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  if (!owner->traits().computes_on_host)
    return;
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 5);
  stream copies(*owner, "copies");
  stream compute(*owner, "compute");
  event copied(*owner);

  copies.copy(upload(slot, weights));
  copies.record(copied);
  compute.wait(copied, contract_edge);
  const auto read = const_bytes(slot.bytes());
  compute.compute({.reads = {&read, 1}, .tag = {.what = "compute"}});
  compute.settle();

  CHECK(every_byte_is(slot.bytes(), 5));
  compute.synchronize(contract_edge);
}

TEMPLATE_TEST_CASE("copies of no bytes are in order like any other", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  stream queue(*owner, "queue");
  event done(*owner);

  queue.copy({.target = {}, .source = {}, .tag = {.what = "nothing"}});
  queue.record(done);
  queue.synchronize(contract_edge);

  CHECK(done.ready());
}

TEMPLATE_TEST_CASE("discarded memory can be written and read again", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 6);
  const auto seen = pinned(*owner, 0);
  stream queue(*owner, "queue");

  queue.copy(upload(slot, weights));
  queue.discard(slot.bytes(), {.what = "discard"});
  queue.copy(upload(slot, weights));
  queue.copy(download(seen, slot));
  queue.synchronize(contract_edge);

  CHECK(holds(*owner, seen, 6));
}

TEMPLATE_TEST_CASE("two threads may use two streams at once", "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto work = [&](unsigned char value, bool& correct) {
    const auto slot = on_device(*owner);
    const auto weights = pinned(*owner, value);
    const auto seen = pinned(*owner, 0);
    stream queue(*owner, "queue");
    event done(*owner);
    for (int i = 0; i < 50; ++i) {
      queue.copy(upload(slot, weights));
      queue.copy(download(seen, slot));
      queue.record(done);
      done.synchronize(contract_edge);
    }
    correct = holds(*owner, seen, value);
  };
  bool first = false;
  bool second = false;

  auto other = std::thread([&] { work(1, first); });
  work(2, second);
  other.join();

  CHECK(first);
  CHECK(second);
}

// Memory

TEMPLATE_TEST_CASE("every block of memory is aligned to 256 bytes", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto bytes = GENERATE(std::size_t{1}, std::size_t{255}, std::size_t{257}, 1000003u);
  const auto kind = GENERATE(memory_kind::device, memory_kind::pinned);

  const auto before = memory_block(*owner, kind, 1);
  const auto block = memory_block(*owner, kind, bytes);

  CHECK(block.size() == bytes);
  CHECK(reinterpret_cast<std::uintptr_t>(block.bytes().data()) % memory_alignment == 0);
}

TEMPLATE_TEST_CASE("memory is accounted for while it is allocated", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto before = owner->counters();

  {
    const auto weights = memory_block(*owner, memory_kind::device, 3 * memory_alignment);
    const auto staging = memory_block(*owner, memory_kind::pinned, 2 * memory_alignment);
    const auto during = owner->counters();

    CHECK(during.device_bytes - before.device_bytes == 3 * memory_alignment);
    CHECK(during.pinned_bytes - before.pinned_bytes == 2 * memory_alignment);
    CHECK(during.allocations - before.allocations == 2);
    CHECK(owner->memory().free == owner->memory().total - during.device_bytes);
  }

  const auto after = owner->counters();
  CHECK(after.device_bytes == before.device_bytes);
  CHECK(after.pinned_bytes == before.pinned_bytes);
  CHECK(after.peak_device_bytes >= 3 * memory_alignment);
  CHECK(after.peak_pinned_bytes >= 2 * memory_alignment);
}

TEMPLATE_TEST_CASE("asking for more memory than is free fails and says how much there is",
                   "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto before = owner->counters();
  const auto free = owner->memory().free;
  const auto total = owner->memory().total;

  try {
    const auto block = memory_block(*owner, memory_kind::device, free + 1);
    FAIL("allocated more than is free");
  } catch (const device_error& error) {
    CHECK(error.code() == errc::out_of_device_memory);
    CHECK_THAT(error.what(),
               Catch::Contains(std::to_string(free + 1)) && Catch::Contains(std::to_string(total)));
  }
  CHECK(owner->counters().device_bytes == before.device_bytes);
}

TEMPLATE_TEST_CASE("released memory can be allocated again", "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto half = owner->memory().total / 2 + memory_alignment;
  auto block = memory_block(*owner, memory_kind::device, half);
  CHECK(error_of([&] { memory_block(*owner, memory_kind::device, half); }) ==
        errc::out_of_device_memory);

  block = memory_block();

  CHECK_NOTHROW(memory_block(*owner, memory_kind::device, half));
}

// Pages that the device did not allocate

TEMPLATE_TEST_CASE("a device without registration refuses pages and knows none", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const read_only_pages pages(1);

  const auto refused = error_of([&] { owner->register_pages(pages.bytes()); });

  CHECK(refused.has_value() != owner->traits().registers_pages);
  CHECK(refused.value_or(errc::unsupported) == errc::unsupported);
  CHECK(owner->pages_registered(pages.bytes()) == owner->traits().registers_pages);
  CHECK(owner->counters().registered_bytes == (refused ? 0 : pages.bytes().size()));
}

/// Returns a device with `pages` registered, or null where there is no registration.
template <class Subject>
[[nodiscard]] std::unique_ptr<device> open_with(const_bytes pages) {
  auto owner = Subject::open(contract_memory);
  if (!owner->traits().registers_pages)
    return nullptr;
  owner->register_pages(pages);
  return owner;
}

TEMPLATE_TEST_CASE("registered pages are read until they are unregistered", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const read_only_pages pages(2, 7);
  const auto owner = open_with<TestType>(pages.bytes());
  if (owner == nullptr)
    return;
  const auto slot = on_device(*owner);
  const auto seen = pinned(*owner, 0);
  stream queue(*owner, "queue");

  queue.copy({.target = slot.bytes(),
              .source = pages.bytes().subspan(100, contract_block),
              .from = memory_kind::registered,
              .tag = {.what = "upload"}});
  queue.copy(download(seen, slot));
  queue.synchronize(contract_edge);

  CHECK(holds(*owner, seen, 7));
  CHECK(owner->counters().h2d_bytes == contract_block);
  owner->unregister_pages(pages.bytes());
  CHECK_FALSE(owner->pages_registered(pages.bytes()));
  CHECK(owner->counters().registered_bytes == 0);
}

TEMPLATE_TEST_CASE("only what one call registered is known as registered", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const read_only_pages pages(4);
  const auto owner = open_with<TestType>(pages.at(1));
  if (owner == nullptr)
    return;
  owner->register_pages(pages.at(2));

  CHECK(owner->pages_registered(pages.at(1)));
  CHECK(owner->pages_registered(pages.at(1).subspan(10, 20)));
  CHECK_FALSE(owner->pages_registered(pages.at(0)));
  CHECK_FALSE(owner->pages_registered(pages.at(3)));
  CHECK_FALSE(owner->pages_registered(pages.at(1, 2)));
  owner->unregister_pages(pages.at(1));
  owner->unregister_pages(pages.at(2));
}

TEMPLATE_TEST_CASE("a range that cannot be registered or unregistered changes nothing",
                   "[contract]", FERRY_DEVICE_SUBJECTS) {
  const read_only_pages pages(4);
  const auto owner = open_with<TestType>(pages.at(1, 2));
  if (owner == nullptr)
    return;
  const auto refused = [](const auto& attempt) {
    return error_of(attempt) == errc::invalid_argument;
  };

  CHECK(refused([&] { owner->register_pages({}); }));
  CHECK(refused([&] { owner->register_pages(pages.at(3).first(100)); }));
  CHECK(refused([&] { owner->register_pages(pages.at(3).subspan(100)); }));
  CHECK(refused([&] { owner->register_pages(pages.at(0, 2)); }));
  CHECK(refused([&] { owner->register_pages(pages.at(1)); }));
  CHECK(refused([&] { owner->register_pages(pages.at(2, 2)); }));
  CHECK(refused([&] { owner->unregister_pages(pages.at(1)); }));
  CHECK(refused([&] { owner->unregister_pages(pages.at(3)); }));

  CHECK(owner->counters().registered_bytes == pages.at(1, 2).size());
  CHECK_NOTHROW(owner->unregister_pages(pages.at(1, 2)));
  CHECK(refused([&] { owner->unregister_pages(pages.at(1, 2)); }));
  CHECK_NOTHROW(owner->register_pages(pages.bytes()));
  owner->unregister_pages(pages.bytes());
}

// Handles

TEMPLATE_TEST_CASE("a stream or event that is gone is refused as stale", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto queue = owner->create_stream("queue");
  const auto gone_queue = owner->create_stream("gone");
  const auto mark = owner->create_event();
  const auto gone_mark = owner->create_event();
  owner->destroy_stream(gone_queue);
  owner->destroy_event(gone_mark);

  CHECK(error_of([&] { owner->copy(gone_queue, {}); }) == errc::stale_handle);
  CHECK(error_of([&] { owner->compute(gone_queue, {}); }) == errc::stale_handle);
  CHECK(error_of([&] { owner->discard(gone_queue, {}, {}); }) == errc::stale_handle);
  CHECK(error_of([&] { owner->mark(gone_queue, {}); }) == errc::stale_handle);
  CHECK(error_of([&] { owner->record(gone_queue, mark); }) == errc::stale_handle);
  CHECK(error_of([&] { owner->record(queue, gone_mark); }) == errc::stale_handle);
  CHECK(error_of([&] { owner->wait(gone_queue, mark, contract_edge); }) == errc::stale_handle);
  CHECK(error_of([&] { owner->wait(queue, gone_mark, contract_edge); }) == errc::stale_handle);
  CHECK(error_of([&] { (void)owner->ready(gone_mark); }) == errc::stale_handle);
  CHECK(error_of([&] { owner->synchronize(gone_mark, contract_edge); }) == errc::stale_handle);
  CHECK(error_of([&] { owner->synchronize(gone_queue, contract_edge); }) == errc::stale_handle);

  owner->destroy_event(mark);
  owner->destroy_stream(queue);
}

TEMPLATE_TEST_CASE("destroying a stream or event twice does no harm", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto queue = owner->create_stream("queue");
  const auto mark = owner->create_event();
  log_at_least(log_level::off);

  owner->destroy_stream(queue);
  owner->destroy_stream(queue);
  owner->destroy_event(mark);
  owner->destroy_event(mark);

  log_at_least(log_level::warn);
  CHECK(owner->counters().streams == 0);
  CHECK(owner->counters().events == 0);
}

TEMPLATE_TEST_CASE("an event outlives the stream that it was recorded on", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 8);
  const auto seen = pinned(*owner, 0);
  event done(*owner);
  {
    stream queue(*owner, "queue");
    queue.copy(upload(slot, weights));
    queue.copy(download(seen, slot));
    queue.record(done);
  }

  done.synchronize(contract_edge);

  CHECK(done.ready());
  CHECK(holds(*owner, seen, 8));
}

TEMPLATE_TEST_CASE("a thousand streams and events come and go without a trace", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 1);
  const auto threads = thread_count();

  for (int i = 0; i < 1000; ++i) {
    stream queue(*owner, "brief");
    event done(*owner);
    queue.copy(upload(slot, weights));
    queue.record(done);
    done.synchronize(contract_edge);
  }

  CHECK(owner->counters().streams == 0);
  CHECK(owner->counters().events == 0);
  CHECK(thread_count() == threads);
}

// Threads of control

TEMPLATE_TEST_CASE("what a sender knew can be taken over by the receiver of its message",
                   "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto sender = host_thread(*owner, "sender");
  const auto receiver = host_thread(*owner, "receiver");
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 2);
  const auto seen = pinned(*owner, 0);
  stream queue(*owner, "queue");
  auto message = causal_stamp{};

  {
    const auto acting = host_thread::scope(sender, owner->stamp());
    queue.copy(upload(slot, weights));
    queue.copy(download(seen, slot));
    queue.synchronize(contract_edge);
    message = owner->stamp();
  }
  bool correct = false;
  {
    const auto acting = host_thread::scope(receiver, message);
    correct = holds(*owner, seen, 2);
    message = owner->stamp();
  }
  owner->observe(message);

  CHECK(correct);
}

TEMPLATE_TEST_CASE("entering a host thread returns whom the caller acted as before", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto outer = owner->create_host_thread("outer");
  const auto inner = owner->create_host_thread("inner");

  const auto itself = owner->enter(outer);

  CHECK(owner->enter(inner) == outer);
  CHECK(owner->enter(outer) == inner);
  CHECK(owner->enter(itself) == outer);
  owner->destroy_host_thread(inner);
  owner->destroy_host_thread(outer);
}

TEMPLATE_TEST_CASE("the time of a host thread does not go backwards", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto before = owner->now();

  owner->spend(std::chrono::microseconds(3));

  CHECK(owner->now() >= before);
}

// Observation

TEMPLATE_TEST_CASE("counters tell the direction of a copy", "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto other_slot = on_device(*owner);
  const auto weights = pinned(*owner, 1);
  const auto seen = pinned(*owner, 0);
  stream queue(*owner, "queue");

  queue.copy(upload(slot, weights));
  queue.copy(upload(slot, weights));
  queue.copy(within(other_slot, slot));
  queue.copy(download(seen, other_slot));
  queue.synchronize(contract_edge);

  CHECK(owner->counters().h2d_bytes == 2 * contract_block);
  CHECK(owner->counters().d2h_bytes == contract_block);
  CHECK(owner->counters().copies == 4);
}

TEMPLATE_TEST_CASE("a copy converts elements on their way, or is refused by a device that cannot",
                   "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 0x40);
  const auto seen = pinned(*owner, 0);
  stream queue(*owner, "queue");
  auto widened = upload(slot, weights);
  widened.convert = conversion::bf16_to_f32;
  widened.source = widened.source.first(contract_block / 2);

  const auto refused = error_of([&] { queue.copy(widened); });

  CHECK(refused == (owner->traits().converts ? std::nullopt : std::optional(errc::unsupported)));
  if (refused)
    return;
  queue.copy(download(seen, slot));
  queue.synchronize(contract_edge);
  owner->host_read(seen.bytes(), {.what = "check"});
  std::vector<std::uint32_t> values(contract_block / 4);
  std::memcpy(values.data(), seen.bytes().data(), contract_block);
  CHECK(std::ranges::count(values, 0x4040'0000U) == std::ssize(values));
  CHECK(owner->counters().h2d_bytes == contract_block / 2);
}

TEMPLATE_TEST_CASE("a device that does not compute with pages where they are says so", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const std::vector<std::byte> pages(64);
  stream queue(*owner, "queue");
  const auto expected =
      owner->traits().computes_in_place ? std::nullopt : std::optional(errc::unsupported);

  CHECK(error_of([&] { queue.populate(pages, {.what = "fetch"}); }) == expected);
  CHECK(error_of([&] { queue.evict(pages, {.what = "evict"}); }) == expected);
  queue.synchronize(contract_edge);
  CHECK(owner->counters().copies == (expected ? 0 : 1));
}

TEMPLATE_TEST_CASE("a copy whose sides do not fit is refused, also after a conversion",
                   "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 1);
  stream queue(*owner, "queue");
  auto unlike = upload(slot, weights);
  unlike.source = unlike.source.first(contract_block - 2);
  CHECK(error_of([&] { queue.copy(unlike); }) == errc::invalid_argument);
  if (!owner->traits().converts)
    return;
  unlike.convert = conversion::bf16_to_f32;
  CHECK(error_of([&] { queue.copy(unlike); }) == errc::invalid_argument);
  unlike.source = unlike.source.first(contract_block / 2 - 1);
  unlike.target = unlike.target.first(contract_block - 2);
  CHECK(error_of([&] { queue.copy(unlike); }) == errc::invalid_argument);
  CHECK(owner->counters().copies == 0);
}

TEMPLATE_TEST_CASE("an observer is told of every stream and operation while it is attached",
                   "[contract]", FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 1);
  recording_observer observer;
  owner->attach(observer);
  stream queue(*owner, "copies");
  auto fetch = upload(slot, weights);
  fetch.tag = {.what = "fetch", .block = 12, .ticket = 34};

  queue.copy(fetch);
  queue.synchronize(contract_edge);
  owner->detach(observer);
  queue.copy(fetch);
  queue.synchronize(contract_edge);

  CHECK(observer.streams() == std::vector<std::string>{"copies"});
  const auto copies = observer.spans_of(operation_kind::copy);
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].stream == queue.id());
  CHECK(copies[0].tag.what == std::string("fetch"));
  CHECK(copies[0].tag.block == 12);
  CHECK(copies[0].tag.ticket == 34);
  CHECK(copies[0].bytes == contract_block);
  CHECK(copies[0].enqueued <= copies[0].start);
  CHECK(copies[0].start <= copies[0].end);
}

TEMPLATE_TEST_CASE("every observer is told until it is detached", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  recording_observer first;
  recording_observer second;
  owner->attach(first);
  owner->attach(second);
  stream queue(*owner, "queue");
  queue.mark({.what = "to both"});
  queue.synchronize(contract_edge);
  owner->detach(first);
  owner->detach(first);
  queue.mark({.what = "to one"});
  queue.synchronize(contract_edge);
  owner->detach(second);

  CHECK(first.spans_of(operation_kind::mark).size() == 1);
  CHECK(second.spans_of(operation_kind::mark).size() == 2);
}

TEMPLATE_TEST_CASE("marks and computes are reported in the order of their stream", "[contract]",
                   FERRY_DEVICE_SUBJECTS) {
  const auto owner = TestType::open(contract_memory);
  const auto slot = on_device(*owner);
  const auto weights = pinned(*owner, 1);
  recording_observer observer;
  owner->attach(observer);
  stream queue(*owner, "queue");

  queue.mark({.what = "begin"});
  queue.copy(upload(slot, weights));
  const auto read = const_bytes(slot.bytes());
  queue.compute({.reads = {&read, 1}, .tag = {.what = "compute"}});
  queue.mark({.what = "end"});
  queue.synchronize(contract_edge);
  owner->detach(observer);

  std::vector<std::string> told;
  auto last = nanoseconds::zero();
  auto in_order = true;
  for (const auto& span : observer.spans()) {
    told.emplace_back(span.tag.what);
    in_order = in_order && last <= span.start && span.start <= span.end;
    last = span.end;
  }
  CHECK(told == std::vector<std::string>{"begin", "upload", "compute", "end"});
  CHECK(in_order);
}

} // namespace ferry::test
