// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/actors/trace_log.hpp"

#include <ferry/actors/trace_file.hpp>
#include <ferry/offload/block_marks.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "record_ring.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace ferry {
namespace {

/// The buffers of one thread, for each log that it records to.
struct thread_rings {
  struct entry {
    std::uint64_t log; ///< Never the same twice.
    std::shared_ptr<record_ring> ring;
  };

  ~thread_rings() {
    for (const auto& each : all)
      each.ring->abandon();
  }

  std::vector<entry> all;
};

thread_local thread_rings rings_here;
thread_local trace_log* log_here = nullptr;
std::atomic<std::uint64_t> logs_made{0};

} // namespace

struct trace_log::impl {
  impl(std::shared_ptr<trace_file> to, std::uint32_t number, device& owner)
      : file(std::move(to)), rank(number), modelled(owner.traits().virtual_time),
        offset(modelled ? nanoseconds::zero() : file->offset_of(owner.now())) {}

  [[nodiscard]] record_ring& ring() {
    for (const auto& each : rings_here.all)
      if (each.log == serial)
        return *each.ring;
    const std::lock_guard lock{mutex};
    rings.push_back(std::make_shared<record_ring>(buffered));
    // Rings that no log knows any more are of logs that are gone.
    std::erase_if(rings_here.all, [](const auto& each) { return each.ring.use_count() == 1; });
    rings_here.all.push_back({serial, rings.back()});
    return *rings.back();
  }

  void put(decltype(trace_record::what) what);
  void take_rings();
  void count_disk(trace_writer& to);
  void write(trace_writer& to, const trace_record& record);
  void write(trace_writer& to, operation_span span);
  void write(trace_writer& to, trace_record::message message);
  [[nodiscard]] std::uint32_t track_of(trace_writer& to, const trace_record::message& message);

  const std::uint64_t serial = ++logs_made;
  std::shared_ptr<trace_file> file;
  std::uint32_t rank;
  bool modelled;
  nanoseconds offset;
  std::atomic<bool> paused{false};
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<nanoseconds::rep> latest{0};

  std::mutex mutex; ///< For the list of rings, and for streams and blocks to be named.
  std::vector<std::shared_ptr<record_ring>> rings;
  std::vector<trace_track> streams;
  std::vector<std::string> blocks;

  std::mutex flushing; ///< One at a time takes from the rings. Guards what follows.
  std::vector<trace_record> held;
  std::uint64_t written = 0; ///< Records up to here went on, in their order.
  block_marks marks;
  std::map<std::uint64_t, std::uint32_t> actors;
  std::map<std::string_view, int> names;
  const std::uint64_t read_before = bytes_read_from_disk();
  std::optional<std::uint64_t> read_from_disk; ///< Since then, as it was written last.
};

trace_log::trace_log(std::shared_ptr<trace_file> file, std::uint32_t rank, device& owner)
    : owner_(&owner), impl_(std::make_unique<impl>(std::move(file), rank, owner)) {}

trace_log::~trace_log() {
  flush();
}

trace_log* trace_log::of_this_thread() noexcept {
  return log_here;
}

void trace_log::use_on_this_thread(trace_log* log) noexcept {
  log_here = log;
}

void trace_log::on_operation(const operation_span& span) {
  if (impl_->paused.load(std::memory_order_relaxed))
    return;
  impl_->put(span);
}

void trace_log::record(std::uint64_t actor, const char* name, message_span span) {
  if (impl_->paused.load(std::memory_order_relaxed))
    return;
  auto& latest = impl_->latest;
  for (auto before = latest.load(); before < span.finished.count();)
    if (latest.compare_exchange_weak(before, span.finished.count()))
      break;
  impl_->put(trace_record::message{actor, name, span});
}

void trace_log::impl::put(decltype(trace_record::what) what) {
  auto& to = ring();
  if (to.full()) {
    if (!modelled) {
      dropped.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    const std::lock_guard lock{flushing};
    take_rings();
  }
  to.put({.order = next.fetch_add(1, std::memory_order_relaxed), .what = what});
}

void trace_log::on_stream(stream_id stream, std::string_view name) {
  const std::lock_guard lock{impl_->mutex};
  impl_->streams.push_back(
      {impl_->rank, static_cast<std::uint32_t>(stream), trace_row::stream, std::string(name)});
}

void trace_log::name_blocks(std::span<const std::string> paths) {
  const std::lock_guard lock{impl_->mutex};
  impl_->blocks.assign(paths.begin(), paths.end());
}

void trace_log::pause(bool paused) noexcept {
  impl_->paused.store(paused);
}

nanoseconds trace_log::latest() const noexcept {
  return nanoseconds{impl_->latest.load()};
}

std::uint64_t trace_log::dropped() const noexcept {
  return impl_->dropped.load();
}

std::size_t trace_log::buffers() const {
  const std::lock_guard lock{impl_->mutex};
  return impl_->rings.size();
}

void trace_log::flush() {
  const std::lock_guard lock{impl_->flushing};
  impl_->take_rings();
}

// Records are numbered before they are put: one that is on its way is waited for, so that those of
// one stream stay in order whichever threads report them.
void trace_log::impl::take_rings() {
  std::vector<trace_track> new_streams;
  std::vector<std::string> new_blocks;
  std::vector<std::shared_ptr<record_ring>> all;
  {
    const std::lock_guard lock{mutex};
    all = rings;
    new_streams.swap(streams);
    new_blocks.swap(blocks);
  }
  for (const auto& each : all) {
    const auto last = each->abandoned();
    each->take_all([this](const trace_record& record) { held.push_back(record); });
    if (last) {
      const std::lock_guard lock{mutex};
      std::erase(rings, each);
    }
  }
  std::ranges::sort(held, {}, &trace_record::order);
  file->add([&](trace_writer& to) {
    for (const auto& each : new_streams)
      to.add(each);
    for (std::size_t i = 0; i != new_blocks.size(); ++i)
      to.name_block(static_cast<std::uint32_t>(i), new_blocks[i]);
    auto upto = held.begin();
    for (; upto != held.end() && upto->order == written; ++upto, ++written)
      write(to, *upto);
    held.erase(held.begin(), upto);
    count_disk(to);
    to.drop(rank, dropped.load());
  });
}

// On a disk that is slower than compute, it grows for as long as copies are late.
void trace_log::impl::count_disk(trace_writer& to) {
  if (modelled)
    return;
  const auto read = bytes_read_from_disk() - read_before;
  if (std::exchange(read_from_disk, read) != read)
    to.add(trace_counter{rank, disk_counter, file->offset_of({}), read});
}

void trace_log::impl::write(trace_writer& to, const trace_record& record) {
  std::visit([&](const auto& what) { write(to, what); }, record.what);
}

void trace_log::impl::write(trace_writer& to, operation_span span) {
  span.enqueued += offset;
  span.start += offset;
  span.end += offset;
  if (span.kind == operation_kind::mark) {
    if (!block_marks::is_gate_mark(span))
      return to.add(
          trace_mark{rank, static_cast<std::uint32_t>(span.stream), span.tag.what, span.end});
    if (auto use = marks.add(span)) {
      use->rank = rank;
      to.add(*use);
    }
    return;
  }
  // What takes no time hides nothing and holds nothing up.
  const auto moves = span.kind == operation_kind::copy || span.kind == operation_kind::gather;
  if (!moves && span.end == span.start)
    return;
  to.add(device_span{.rank = rank,
                     .track = static_cast<std::uint32_t>(span.stream),
                     .kind = span.kind,
                     .what = span.tag.what,
                     .block = span.tag.block,
                     .ticket = span.tag.ticket,
                     .bytes = span.bytes,
                     .enqueued = span.enqueued,
                     .start = span.start,
                     .end = span.end});
}

void trace_log::impl::write(trace_writer& to, trace_record::message message) {
  auto& span = message.span;
  span.rank = rank;
  span.track = track_of(to, message);
  span.sent += offset;
  span.started += offset;
  span.finished += offset;
  to.add(span);
}

std::uint32_t trace_log::impl::track_of(trace_writer& to, const trace_record::message& message) {
  const auto [known, is_new] =
      actors.emplace(message.actor, first_actor_track + static_cast<std::uint32_t>(actors.size()));
  if (is_new) {
    const auto number = ++names[message.name];
    auto name = std::string(message.name);
    if (number > 1)
      name += " " + std::to_string(number);
    to.add(trace_track{rank, known->second, trace_row::actor, std::move(name)});
  }
  return known->second;
}

} // namespace ferry
