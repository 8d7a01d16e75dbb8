// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ferry {

using const_bytes = std::span<const std::byte>;
using mutable_bytes = std::span<std::byte>;
using nanoseconds = std::chrono::nanoseconds;

/// Names a queue inside one device. Meaningless without the device that issued it.
enum class stream_id : std::uint32_t {};

/// Names an event inside one device. Meaningless without the device that issued it.
enum class event_id : std::uint32_t {};

/// Names a host thread of control inside one device: an actor, or a thread of the program.
enum class host_thread_id : std::uint32_t {};

/// Where bytes live, as far as a copy has to know.
enum class memory_kind : std::uint8_t {
  device,     ///< Allocated from this device.
  pinned,     ///< Host memory allocated from this device; copies from it are asynchronous.
  registered, ///< Pages registered with this device; only read, and as `pinned`.
  mapped,     ///< Read-only pages of a mapped file. The device may give them back after the copy.
  pageable,   ///< Any other host memory.
};

/// What an operation is for. Appears in race reports, traces and counters; never decides anything.
struct operation_tag {
  static constexpr std::uint32_t no_block = ~std::uint32_t{0};

  const char* what = "";          ///< A string literal: "fetch", "compute", "discard".
  std::uint32_t block = no_block; ///< The block concerned.
  std::uint64_t ticket = 0;       ///< The slot use concerned, 0 if none.
};

/// An ordering that the program relies on, by name. Every wait carries one, so that
/// docs/memory-model.md can list them and the simulated device can be told to forget one.
struct wait_edge {
  const char* name = "unnamed"; ///< A string literal, unique over the program.
};

/// What a host thread of control knew when it took the stamp: which device work is ordered before,
/// and, where time is virtual, what time it was. Empty on real devices. Travels inside messages.
struct causal_stamp {
  std::shared_ptr<const void> knowledge;
};

/// What a copy makes of the elements on their way. See `ferry/platform/conversion.hpp`.
enum class conversion : std::uint8_t {
  none,
  bf16_to_f32,
  f16_to_f32,
  f32_to_bf16,
  f32_to_f16,
  f16_to_bf16,
};

struct copy_operation {
  mutable_bytes target;
  const_bytes source; ///< As long as `target`, or what becomes as long once it is converted.
  memory_kind to = memory_kind::device;
  memory_kind from = memory_kind::pinned;
  operation_tag tag = {};
  conversion convert = conversion::none; ///< Only with `device_traits::converts`.
};

/// Announces the work of a block on a stream: what it touches and how long it takes.
struct compute_operation {
  std::span<const const_bytes> reads = {};
  std::span<const mutable_bytes> writes = {};
  nanoseconds duration = nanoseconds::zero(); ///< Zero: as the device's own model says.
  operation_tag tag = {};
};

enum class operation_kind : std::uint8_t { copy, compute, discard, mark, gather };

/// One finished (or, on a virtual clock, fully scheduled) operation.
struct operation_span {
  operation_kind kind;
  stream_id stream;
  operation_tag tag;
  std::uint64_t bytes;  ///< Moved by a copy or collective, before a conversion; 0 otherwise.
  nanoseconds enqueued; ///< All three since the device was opened, on the device's clock.
  nanoseconds start;
  nanoseconds end;
};

/// Is told of operations. Called under the device's lock or from its stream threads: must be
/// quick, must not call the device, and may be called from several threads at once.
class operation_observer {
public:
  virtual ~operation_observer() = default;
  virtual void on_operation(const operation_span& span) = 0;
  virtual void on_stream(stream_id stream, std::string_view name) = 0;
};

struct device_traits {
  std::string name;                 ///< "sim", "host", "cuda:0".
  bool computes_on_host = false;    ///< Block bodies run on the calling thread: `settle` first.
  bool virtual_time = false;        ///< Times are modelled, not measured.
  bool wants_pinned_sources = true; ///< Copies are faster or only asynchronous from pinned memory.
  bool registers_pages = false;     ///< Takes read-only pages that it did not allocate.
  bool converts = false;            ///< Copies may convert; otherwise such a copy is `unsupported`.
  bool computes_in_place = false;   ///< Compute reads pages of mapped files: see `populate`.
  std::optional<int> node = {}; ///< Of the host's memory, nearest to it. Nothing: unknown or none.
};

struct device_counters {
  std::uint64_t h2d_bytes = 0;
  std::uint64_t d2h_bytes = 0;
  std::uint64_t copies = 0;
  /// Of these, those that may have held up their caller: from memory that is neither pinned nor
  /// registered, where the driver stages such a copy itself.
  std::uint64_t blocking_copies = 0;
  std::uint64_t allocations = 0;  ///< Device and pinned allocations since the device was opened.
  std::uint64_t device_bytes = 0; ///< Allocated now.
  std::uint64_t peak_device_bytes = 0;
  std::uint64_t pinned_bytes = 0; ///< Allocated now.
  std::uint64_t peak_pinned_bytes = 0;
  std::uint64_t registered_bytes = 0; ///< Pages registered now.
  std::uint32_t streams = 0;          ///< Alive now.
  std::uint32_t events = 0;           ///< Alive now.
};

struct device_memory {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};

/// What the runtime needs from an accelerator. Implementations are `final`; callers hold the
/// owning wrappers `stream`, `event`, `device_block`, `pinned_block` and `host_thread`, and never
/// see an id.
///
/// Thread-safe; one stream is still used by one thread at a time. Members throw `device_error`
/// and then have enqueued nothing. The `destroy_` and `release` members do not fail: they log and
/// go on.
class device {
public:
  device() = default;
  device(const device&) = delete;
  device& operator=(const device&) = delete;
  virtual ~device() = default;

  [[nodiscard]] virtual const device_traits& traits() const noexcept = 0;

  // Memory. Blocks are aligned to at least 256 bytes.

  /// Allocates `kind` memory: `memory_kind::device` or `memory_kind::pinned`. Pages of pinned
  /// memory come from where the calling thread, or whoever touches them first, has its new pages
  /// from: see `prefer_node`.
  [[nodiscard]] virtual mutable_bytes allocate(memory_kind kind, std::size_t bytes) = 0;

  /// Gives a block back. Work that touches it must have completed, and the calling host thread
  /// must know so.
  virtual void release(memory_kind kind, mutable_bytes block) noexcept = 0;

  [[nodiscard]] virtual device_memory memory() const = 0;

  // Pages that something else has mapped, read-only, such as those of a file. Without the trait
  // `registers_pages` registering is refused as `unsupported`. A failure leaves nothing pending:
  // calls after it are not affected.

  /// Lets the device read `pages`, whole pages of `page_bytes()`, by itself: until they are
  /// unregistered, copies from them may be `memory_kind::registered`. Nobody unmaps or writes them
  /// as long. May block while they are read into memory.
  /// @throws device_error `invalid_argument` also for pages that are registered or the device's own
  virtual void register_pages(const_bytes pages) = 0;

  /// Ends that, for a range as it was registered. Work that reads it must have completed, and the
  /// calling host thread must know so. If it fails, the range stays registered.
  /// @throws device_error `invalid_argument` also for a range that is not registered
  virtual void unregister_pages(const_bytes pages) = 0;

  /// Returns whether all of `range` lies in pages that were registered by one call.
  [[nodiscard]] virtual bool pages_registered(const_bytes range) = 0;

  // Streams and events.

  [[nodiscard]] virtual stream_id create_stream(std::string_view name) = 0;
  virtual void destroy_stream(stream_id stream) noexcept = 0;
  [[nodiscard]] virtual event_id create_event() = 0;
  virtual void destroy_event(event_id event) noexcept = 0;

  /// Enqueues a copy. Both ranges stay valid, and the source unchanged, until it has run. Where it
  /// can fail by itself, such as by a file that was cut short, nothing behind it moves, and whoever
  /// waits for what was recorded behind it has failed too, as if the failure were its own; until
  /// the stream is drained. What fails on a GPU fails the device.
  virtual void copy(stream_id stream, const copy_operation& operation) = 0;

  // Pages of mapped files that compute reads where they are. Without the trait `computes_in_place`
  // both are refused as `unsupported`.

  /// Enqueues that `pages` get into memory: a copy that moves nothing, and counted and reported as
  /// one. They are read from the file where they are not in memory yet; that the file was cut short
  /// or written is a failure as of a copy.
  virtual void populate(stream_id stream, const_bytes pages, operation_tag tag);

  /// Enqueues that `pages` leave the process. Reported as a discard. Whoever reads them later reads
  /// the file again.
  virtual void evict(stream_id stream, const_bytes pages, operation_tag tag);

  /// Announces compute that the caller has enqueued, or (`computes_on_host`) is about to run.
  virtual void compute(stream_id stream, const compute_operation& operation) = 0;

  /// Declares the contents of device memory worthless from here on. Costs nothing on a real
  /// device; a simulated one poisons the range when the stream gets there.
  virtual void discard(stream_id stream, mutable_bytes range, operation_tag tag) = 0;

  /// Puts a named point in time on the stream, for reports. Orders nothing.
  virtual void mark(stream_id stream, operation_tag tag) = 0;

  /// Makes `event` stand for everything enqueued on `stream` so far.
  virtual void record(stream_id stream, event_id event) = 0;

  /// Holds back later work on `stream` until the record of `event` that is current *now* has run.
  /// Recording `event` again does not move the wait. An event never recorded holds back nothing.
  virtual void wait(stream_id stream, event_id event, wait_edge edge) = 0;

  /// Returns whether the latest record of `event` has run, behind a failure or not. True for an
  /// event never recorded.
  [[nodiscard]] virtual bool ready(event_id event) = 0;

  /// Blocks the calling thread until the latest record of `event` has run.
  /// @throws operation_failed if it has, behind a failure
  virtual void synchronize(event_id event, wait_edge edge) = 0;

  /// Blocks the calling thread until everything enqueued on `stream` has run.
  /// @throws operation_failed if it has, and some of it failed
  virtual void synchronize(stream_id stream, wait_edge edge) = 0;

  /// As `synchronize`, for who wants to know that nothing uses the memory any more, and not whether
  /// what was to be there is there. What failed before is over then: it stays with the events that
  /// stand for it, and later work on the stream is not concerned.
  virtual void drain(event_id event, wait_edge edge);
  virtual void drain(stream_id stream, wait_edge edge);

  /// Only where `computes_on_host`: lets the calling thread see what `stream` sees. Afterwards the
  /// bytes of every operation that happens before the end of `stream` are in place. Takes no
  /// virtual time: on the device that is modelled, the compute would merely have been enqueued.
  /// @throws operation_failed if one of them failed
  virtual void settle(stream_id stream) = 0;

  // Host accesses to memory that copies also touch. Free on real devices, checked on a simulated
  // one.

  virtual void host_read(const_bytes range, operation_tag tag) = 0;
  virtual void host_write(mutable_bytes range, operation_tag tag) = 0;

  // Threads of control.

  [[nodiscard]] virtual host_thread_id create_host_thread(std::string_view name) = 0;
  virtual void destroy_host_thread(host_thread_id thread) noexcept = 0;

  /// Makes the calling thread act as `thread` on this device (and makes the device current where
  /// the vendor's API has such a notion). Returns whom it acted as before. A thread that never
  /// entered anything acts as itself.
  virtual host_thread_id enter(host_thread_id thread) noexcept = 0;

  /// Returns what the current host thread of control knows.
  [[nodiscard]] virtual causal_stamp stamp() = 0;

  /// Adds what the sender of a message knew to what the current host thread of control knows.
  virtual void observe(const causal_stamp& stamp) = 0;

  /// Lets the current host thread of control spend `span` on its own work. Virtual time only.
  virtual void spend(nanoseconds span) = 0;

  /// Returns the time of the current host thread of control on the device's clock.
  [[nodiscard]] virtual nanoseconds now() = 0;

  // Observation.

  [[nodiscard]] virtual device_counters counters() const = 0;

  /// Tells `observer` of every stream and operation from now on, as it does those attached already.
  /// It must outlive its attachment. @pre it is not attached
  virtual void attach(operation_observer& observer) = 0;

  /// Once this returns, `observer` is told nothing more. One that is not attached stays so.
  virtual void detach(operation_observer& observer) noexcept = 0;
};

} // namespace ferry
