// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "contract/device_rig.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <thread>

namespace ferry::test {

memory_block on_device(device& owner) {
  return {owner, memory_kind::device, contract_block};
}

memory_block pinned(device& owner, unsigned char value) {
  auto block = memory_block(owner, memory_kind::pinned, contract_block);
  owner.host_write(block.bytes(), {.what = "fill"});
  std::ranges::fill(block.bytes(), std::byte{value});
  return block;
}

bool every_byte_is(const_bytes bytes, unsigned char value) {
  return std::ranges::all_of(bytes, [=](std::byte b) { return b == std::byte{value}; });
}

bool holds(device& owner, const memory_block& block, unsigned char value) {
  owner.host_read(block.bytes(), {.what = "check"});
  return every_byte_is(block.bytes(), value);
}

copy_operation upload(const memory_block& target, const memory_block& source) {
  return {.target = target.bytes(),
          .source = source.bytes(),
          .to = memory_kind::device,
          .from = memory_kind::pinned,
          .tag = {.what = "upload"}};
}

copy_operation download(const memory_block& target, const memory_block& source) {
  return {.target = target.bytes(),
          .source = source.bytes(),
          .to = memory_kind::pinned,
          .from = memory_kind::device,
          .tag = {.what = "download"}};
}

copy_operation within(const memory_block& target, const memory_block& source) {
  return {.target = target.bytes(),
          .source = source.bytes(),
          .to = memory_kind::device,
          .from = memory_kind::device,
          .tag = {.what = "within"}};
}

void recording_observer::on_operation(const operation_span& span) {
  const auto lock = std::scoped_lock(mutex_);
  spans_.push_back(span);
}

void recording_observer::on_stream(stream_id, std::string_view name) {
  const auto lock = std::scoped_lock(mutex_);
  streams_.emplace_back(name);
}

std::vector<operation_span> recording_observer::spans() const {
  const auto lock = std::scoped_lock(mutex_);
  return spans_;
}

std::vector<std::string> recording_observer::streams() const {
  const auto lock = std::scoped_lock(mutex_);
  return streams_;
}

std::vector<operation_span> recording_observer::spans_of(operation_kind kind) const {
  auto all = spans();
  std::erase_if(all, [=](const operation_span& span) { return span.kind != kind; });
  return all;
}

std::size_t thread_count() {
  // Some runtimes, such as a sanitizer's, start a thread of their own along with the first one.
  static const bool first_thread_was_started = [] {
    std::thread([] {}).join();
    return true;
  }();
  static_cast<void>(first_thread_was_started);
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

} // namespace ferry::test
