// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/rank_group.hpp>
#include <ferry/offload/block_gate.hpp>
#include <ferry/offload/bounded_allocator_cache.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/offload/offload_state.hpp>
#include <ferry/offload/request_meter.hpp>
#include <ferry/offload/slot_depth.hpp>
#include <ferry/offload/wave_terms.hpp>
#include <ferry/offload/weight_store.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

class caller_streams;
class numa_nodes;
class profile_ranges;
class host_lease;
class loader_transforms;
class pipeline;
class trace_log;
struct bare_weights;

struct runtime_options {
  std::size_t slots = 2; ///< Blocks that the device holds at a time, at least 1.
  /// How many slots there may come to be, up to `most_useful_slots`: where the blocks of the
  /// requests before would have come noticeably earlier with another slot, the next request gets
  /// it, if the device has memory for it. A request then begins once the device is done with the
  /// one before. Not with ranks. Nothing: as many as `slots`.
  std::optional<std::size_t> most_slots = std::nullopt;
  /// Most device memory that weights may take. Nothing: what the device has.
  std::optional<std::uint64_t> device_memory = std::nullopt;
  /// Most host memory to pin at a time. Nothing: what the configuration and the host allow.
  std::optional<std::uint64_t> pinned_memory = std::nullopt;
  /// Where the model's activations come from. It is made to give back what it keeps, within
  /// `cache`, when a component has left the device. Null: nothing keeps anything.
  std::shared_ptr<allocator_cache> activations = nullptr;
  cache_bounds cache = {};
  /// The runtimes that this one shares the weights with. Nothing: it is alone.
  std::optional<rank_group> ranks = std::nullopt;
  /// Where whoever calls the model computes: each use of a block or component is ordered against
  /// the stream that is current when it begins, and one that has gone on on another stream ends
  /// once both are through. A use is refused, and nothing else is lost, while the stream cannot be
  /// ordered. Residents are used past all this: whoever computes with them on a stream on which
  /// nothing else of the model runs waits for it before a disable or an update. Null: on a stream
  /// of the runtime's own.
  std::shared_ptr<caller_streams> callers = nullptr;
  /// Told of each block while it runs and of each copy while it is enqueued, on the thread that
  /// does so: `nvtx_ranges()`. Null: nobody.
  std::shared_ptr<profile_ranges> ranges = nullptr;
  /// Where the host's memory is. Null: as the kernel says; anything else in tests only.
  std::shared_ptr<const numa_nodes> memory_nodes = nullptr;
  /// Records what the actors, and the device while the runtime is started, do. Null: nobody does.
  std::shared_ptr<trace_log> trace = nullptr;
  /// Measures requests, for `requests`; a trace does so too. A GPU then keeps the times of what it
  /// does, which costs a little.
  bool measure_requests = false;
  std::size_t worker_threads = 1; ///< For the actors that never block. One is the fastest.

  // Every wait of the runtime ends.
  std::chrono::milliseconds acquire_deadline{
      60'000}; ///< Until a copy is enqueued, not until it ran.
  std::chrono::milliseconds request_deadline{60'000}; ///< Begin, end, announce, state; no gather.
  std::chrono::milliseconds enable_deadline{
      1'800'000};                                  ///< Enable and disable; both move all weights.
  std::chrono::milliseconds stop_deadline{10'000}; ///< Of the destructor.
};

/// Streams the weights of one pipeline to one device: the actors that do it, and plain calls that
/// talk to them.
///
/// Calls block until the actors have answered and may come from any thread, one at a time for those
/// that change something; `state` and `stop` may come at any time. A refused call changes nothing.
/// After a failure on the way of a transfer every call but `disable`, `state` and `stop` fails with
/// that first cause.
class runtime final : public weight_store {
public:
  /// @throws ferry_error `invalid_argument`
  runtime(std::shared_ptr<device> target, runtime_options options);
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// Stops, within `options.stop_deadline`.
  ~runtime() override;

  /// Starts the actors. A failed start leaves nothing behind and may be repeated, as may a start
  /// after a stop. Fails with `already_enabled` while started.
  [[nodiscard]] result<void> start();

  /// Disables and stops the actors, in order. Always ends: after `deadline` it fails with
  /// `deadline_exceeded` and names who was late; what those hold stays alive, and a second stop
  /// tries again. Stopping what is stopped succeeds.
  result<void> stop(std::chrono::milliseconds deadline);

  /// Offloads `subject` as `config` says. Nothing to offload: a warning is logged, nothing is
  /// placed and the state says so. A failure leaves ordinary tensors with exact values and no
  /// hooks. Fails with what the resolver found, `out_of_device_memory` with the least size that
  /// works, `out_of_host_memory` with what may be pinned, `unsupported`, `already_enabled`, or a
  /// failure of the device.
  [[nodiscard]] result<void> enable(std::shared_ptr<pipeline> subject,
                                    const offload_config& config);

  /// The same of a pipeline with weights in `lease`, for a distributed strategy. They stay there:
  /// what ranks do not gather is registered with the device if it can be, within the configured
  /// limit, and the state says why if it is not. A disable, or an enable that fails under way,
  /// gives the pipeline copies and closes the lease. An enable that is refused before only lets go
  /// of it: the pipeline is of no use then unless somebody else has a share. Fails also with
  /// `incomplete` if pages of a try that failed stay registered: they and the lease are then kept,
  /// and tried again.
  ///
  /// `transforms` are applied to the tensors they name, which become memory of the pipeline's own,
  /// or a pinned copy; of what ranks gather only the part of each rank, until a disable. They are
  /// empty once they are taken on: from then on a disable, or an enable that fails, leaves every
  /// tensor as the model computes with it.
  [[nodiscard]] result<void> enable(std::shared_ptr<pipeline> subject, const offload_config& config,
                                    std::shared_ptr<host_lease> lease,
                                    std::shared_ptr<loader_transforms> transforms = nullptr);

  /// Streams bytes that belong to no pipeline. What their kept masters point at outlives the
  /// backend. Whoever computes on them goes through the gate, which may outlive the runtime and
  /// then fails.
  [[nodiscard]] result<std::shared_ptr<block_gate>>
  enable(std::shared_ptr<const bare_weights> weights);

  /// Makes the tensors ordinary again and gives the device memory back. Fails with `busy` during a
  /// request; with `incomplete`, having kept what it could not restore, and may then be repeated.
  [[nodiscard]] result<void> disable();

  /// Gives out an id for a request, for whoever wants to cancel it while it waits. Never the same
  /// twice. From any thread, also while stopped.
  [[nodiscard]] request_id new_request() noexcept;

  /// Waits for the requests before it to end, and brings its first blocks on their way. Blocks run
  /// outside a request as well. Several threads may wait here. Fails with `deadline_exceeded` if
  /// its turn does not come within the request's deadline, with `cancelled`, or with
  /// `invalid_argument` for an id that waits or runs already. @pre `new_request` gave `id`
  ///
  /// Where ranks gather blocks, it also waits for the other ranks to begin, for as long as the
  /// request may wait in all. A wave that `admit_wave` refuses begins on no rank, and the next may;
  /// a rank that does not come in time fails the group. A rank without a request of its own begins
  /// one with the blocks of the others and ends it.
  [[nodiscard]] result<void> begin_request(request_id id, wave_terms wave = {});

  /// The same with an id of its own, which the caller learns once the request has begun.
  [[nodiscard]] result<request_id> begin_request(wave_terms wave = {});

  /// Ends the wait of a request, or lets the model's next use of a block or component fail with
  /// `cancelled`. Whoever began it still ends it. From any thread. Fails with `not_found` for a
  /// request that neither waits nor runs: one that is over, or that has yet to ask for its turn;
  /// with `unsupported` where ranks gather, for one that did not say which blocks it runs.
  [[nodiscard]] result<void> cancel_request(request_id id);

  /// Ends the request that runs, cancelled or not: no copy is in flight and no block on the device
  /// afterwards. In a wave of ranks, what it has left out is still gathered for the others, behind
  /// this call and as they get there; if it did not say its blocks, nobody knows what that is, and
  /// `leave_ranks` ends what all do.
  [[nodiscard]] result<void> end_request();

  /// Says that this rank goes no further, for whoever finds that outside the runtime: its model has
  /// thrown, and the other ranks wait for what it would have sent. All that ranks do together fails
  /// with the first cause from then on, on all of them, and wherever they wait for it. A cause
  /// without a rank is this one's. Returns the first cause. From any thread, at any time; does not
  /// wait for the actors. Without ranks, or once it has stopped, nothing happens.
  [[nodiscard]] failure leave_ranks(failure cause);

  /// Tells which blocks run next, else what ran is learned. Among ranks: from the model's thread.
  [[nodiscard]] result<void> announce(std::vector<block_id> blocks);

  /// Brings a component that comes and goes as a whole to the device ahead of its use, or makes it
  /// leave. Fails with `not_found`, `unsupported` for a component that is streamed or stays, or
  /// `busy` for one in use or that has to make room and is.
  [[nodiscard]] result<void> stage_in(std::string path);
  [[nodiscard]] result<void> stage_out(std::string path);

  /// Replaces tensors of a component, wherever they are: on the host and on the device, from the
  /// next block on, and still after a disable. All or none of them; a failure leaves the old
  /// contents everywhere. Not while the model runs. Fails also with `busy` during a request, and
  /// with `not_enabled`: ordinary tensors are written directly. Owners are kept until the offloader
  /// is done, which may be after the deadline.
  [[nodiscard]] result<weight_version> update_weights(weight_update update) override;

  /// Returns contents of a component as they are on the host, also while its tensors are away.
  /// Fails also with `busy` during a request, and with `not_enabled`.
  [[nodiscard]] result<weight_snapshot> read_weights(std::string component,
                                                     std::vector<std::string> names) override;

  /// Puts a point in time on the compute stream, for whoever observes the device: a step begins, a
  /// stage ends. `what` is a string literal. On the model's thread, between blocks; nothing happens
  /// unless a backend is enabled.
  void mark(const char* what);

  /// Describes the runtime at this moment. Fails with `not_enabled` unless started.
  [[nodiscard]] result<offload_state> state() const;

  /// Returns how well transfers hid behind compute in the requests that ended since the runtime was
  /// made, and in the last of them, as far as the device has reported them. All times are zero
  /// unless they are measured. From any thread.
  [[nodiscard]] request_sums requests() const;

private:
  struct impl;

  std::unique_ptr<impl> impl_;
};

} // namespace ferry
