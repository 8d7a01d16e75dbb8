// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/platform/sim_device.hpp>

#include "platform/streamed_slot.hpp"
#include "support/catch.hpp"
#include "support/faults.hpp"
#include "support/read_only_pages.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>

namespace ferry {
namespace {

using test::streamed_slot;

/// Returns the code of the error that `call` throws, or nothing.
std::optional<errc> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const device_error& error) {
    return error.code();
  }
  return std::nullopt;
}

/// Returns a page that no other call has seen.
const_bytes more_pages() {
  static std::deque<test::read_only_pages> all;
  return all.emplace_back(1).bytes();
}

struct named_call {
  device_call call;
  std::function<void(streamed_slot&)> make;
};

std::vector<named_call> every_call() {
  return {
      {device_call::allocate, [](auto& s) { memory_block{s.gpu, memory_kind::device, 256}; }},
      {device_call::create_stream, [](auto& s) { stream{s.gpu, "extra"}; }},
      {device_call::create_event, [](auto& s) { event{s.gpu}; }},
      {device_call::copy, [](auto& s) { s.fetch_staged(1); }},
      {device_call::compute, [](auto& s) { s.compute.compute({}); }},
      {device_call::record, [](auto& s) { s.copies.record(s.ready); }},
      {device_call::wait, [](auto& s) { s.copies.wait(s.ready, streamed_slot::ready_edge); }},
      {device_call::ready, [](auto& s) { (void)s.ready.ready(); }},
      {device_call::synchronize, [](auto& s) { s.copies.synchronize(streamed_slot::done_edge); }},
      {device_call::register_pages, [](auto& s) { s.gpu.register_pages(more_pages()); }},
      {device_call::unregister_pages,
       [](auto& s) {
         const auto pages = more_pages();
         s.gpu.register_pages(pages);
         s.gpu.unregister_pages(pages);
       }},
      {device_call::pages_registered, [](auto& s) { (void)s.gpu.pages_registered({}); }},
  };
}

TEST_CASE("each call can be made to fail, once and by its kind", "[sim][faults]") {
  auto tried = GENERATE(from_range(every_call()));
  streamed_slot s{sim_options{}};
  s.gpu.inject({.call = tried.call, .error = errc::out_of_host_memory});

  auto first = error_of([&] { tried.make(s); });
  auto second = error_of([&] { tried.make(s); });

  CHECK(first == errc::out_of_host_memory);
  CHECK(second == std::nullopt);
  CHECK(s.gpu.cancel_failure());
}

TEST_CASE("a fault of another kind does not concern a call", "[sim][faults]") {
  streamed_slot s{sim_options{}};
  s.gpu.inject({.call = device_call::record});

  CHECK(error_of([&] { s.fetch_staged(1); }) == std::nullopt);
  CHECK_FALSE(s.gpu.cancel_failure());
}

TEST_CASE("a fault counts the calls of its kind", "[sim][faults]") {
  streamed_slot s{sim_options{}};
  s.gpu.inject({.call = device_call::copy, .after = 2});

  s.fetch_staged(1);
  s.copies.record(s.ready);
  s.fetch_staged(2);

  CHECK(error_of([&] { s.fetch_staged(3); }) == errc::device_failure);
}

TEST_CASE("a call that fails enqueues nothing", "[sim][faults]") {
  streamed_slot s{sim_options{}};
  s.gpu.inject({.call = device_call::copy});

  (void)error_of([&] { s.fetch_staged(1); });
  s.copies.synchronize(streamed_slot::done_edge);

  CHECK(s.gpu.timeline().empty());
  CHECK(s.gpu.counters().copies == 0);
}

TEST_CASE("after a sticky fault every later call says the device is poisoned", "[sim][faults]") {
  auto tried = GENERATE(from_range(every_call()));
  streamed_slot s{sim_options{}};
  s.gpu.inject({.call = device_call::record, .effect = fault_effect::sticky});

  auto first = error_of([&] { s.copies.record(s.ready); });
  auto later = error_of([&] { tried.make(s); });

  CHECK(first == errc::device_failure);
  CHECK(later == errc::device_poisoned);
}

TEST_CASE("a deferred fault shows at the next synchronize and poisons the device",
          "[sim][faults]") {
  streamed_slot s{sim_options{}};
  s.gpu.inject({.call = device_call::copy, .effect = fault_effect::deferred});

  auto at_copy = error_of([&] { s.fetch_staged(1); });
  auto at_synchronize = error_of([&] { s.copies.synchronize(streamed_slot::done_edge); });
  auto later = error_of([&] { s.fetch_staged(2); });

  CHECK(at_copy == std::nullopt);
  CHECK(at_synchronize == errc::device_failure);
  CHECK(later == errc::device_poisoned);
}

TEST_CASE("memory that does not fit is refused with what is free", "[sim][faults]") {
  auto options = sim_options{};
  options.memory = 1000;
  options.pinned = 500;
  sim_device gpu{options};
  memory_block held{gpu, memory_kind::device, 600};

  CHECK_THROWS_WITH(memory_block(gpu, memory_kind::device, 401),
                    Catch::Contains("out_of_device_memory") && Catch::Contains("400 of 1000"));
  CHECK_THROWS_WITH(memory_block(gpu, memory_kind::pinned, 501),
                    Catch::Contains("out_of_host_memory") && Catch::Contains("500 of 500"));
  CHECK(gpu.memory().free == 400);
}

TEST_CASE("a handle that was destroyed is stale", "[sim][faults]") {
  streamed_slot s{sim_options{}};
  auto gone_stream = s.gpu.create_stream("gone");
  auto gone_event = s.gpu.create_event();
  s.gpu.destroy_stream(gone_stream);
  s.gpu.destroy_event(gone_event);

  CHECK(error_of([&] { s.gpu.record(gone_stream, s.ready.id()); }) == errc::stale_handle);
  CHECK(error_of([&] { s.gpu.record(s.copies.id(), gone_event); }) == errc::stale_handle);
  CHECK(error_of([&] { s.gpu.synchronize(gone_stream, {}); }) == errc::stale_handle);
}

TEST_CASE("a call by a host thread that was destroyed is an error", "[sim][faults]") {
  sim_device gpu{sim_options{}};
  auto thread = gpu.create_host_thread("gone");
  auto before = gpu.enter(thread);
  gpu.destroy_host_thread(thread);

  CHECK(error_of([&] { (void)gpu.create_event(); }) == errc::stale_handle);
  gpu.enter(before);
}

TEST_CASE("a call by a host thread of another device is an error", "[sim][faults]") {
  auto machine = make_sim_machine(1);
  sim_device first{machine, "sim:0", sim_options{}};
  sim_device second{machine, "sim:1", sim_options{}};
  auto thread = first.create_host_thread("rank 0");
  auto before = first.enter(thread);

  CHECK(error_of([&] { (void)second.create_event(); }) == errc::invalid_argument);
  first.enter(before);
  CHECK(error_of([&] { (void)second.create_event(); }) == std::nullopt);
}

TEST_CASE("a start that fails at any device call leaves nothing behind", "[sim][faults]") {
  sim_device gpu{sim_options{}};
  struct parts {
    explicit parts(sim_device& device)
        : slot(device, memory_kind::device, 256), copies(device, "copy"), ready(device) {
      copies.record(ready);
    }
    memory_block slot;
    stream copies;
    event ready;
  };
  std::unique_ptr<parts> started;

  auto tried = test::at_every_fault_point(
      gpu, [&] { started = std::make_unique<parts>(gpu); },
      [&] {
        CHECK(gpu.counters().streams == 0);
        CHECK(gpu.counters().events == 0);
        CHECK(gpu.counters().device_bytes == 0);
      });

  CHECK(tried == 4);
  CHECK(gpu.counters().streams == 1);
}

} // namespace
} // namespace ferry
