// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/gather_manifest.hpp>
#include <ferry/offload/host_master.hpp>
#include <ferry/offload/host_shard.hpp>
#include <ferry/offload/ids.hpp>
#include <ferry/offload/staging_buffers.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/caller_streams.hpp>
#include <ferry/platform/communicator.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/profile_ranges.hpp>
#include <ferry/platform/stream.hpp>

#include "ticket_board.hpp"
#include "work_permit.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ferry {

/// What the actors and the model thread of one enabled backend share. Made by the offloader, then
/// constant except for the ticket board, the slots that are added and the device objects, each of
/// which has one user at a time: a slot's events follow its ticket, what is about compute belongs
/// to the model thread while it is inside the board, and to the offloader otherwise.
class streaming {
public:
  using sources = std::span<const host_master::segment>;

  /// How a block comes that ranks gather.
  struct gathering {
    const gather_manifest* manifest = nullptr;
    const host_shard* shard = nullptr; ///< Valid until `close`.
  };

  struct block {
    std::string path;
    std::size_t bytes = 0;
    sources from;                    ///< Valid until `close` or an update.
    bool staged = false;             ///< It goes through the staging buffers.
    std::optional<gathering> gather; ///< Nothing: it comes from this rank alone.
    bool in_place = false;           ///< The device computes with its originals: nothing is copied.
    std::vector<const_bytes> pages;  ///< What of them lies in files. Nothing unless `in_place`.
  };

  struct resident {
    mutable_bytes target;
    sources from;
  };

  struct slot {
    slot(device& owner, mutable_bytes region) : bytes(region), ready(owner), last_use(owner) {}

    mutable_bytes bytes;
    event ready;                      ///< After the copies into the slot.
    event last_use;                   ///< After everything that read it.
    stream_id on{};                   ///< The compute stream of its use.
    std::optional<block_id> pages_of; ///< What the copy worker has got into memory for it.
  };

  /// Where a piece lies that this rank sends. The copy worker fills it once it knows that the
  /// gather of the piece before is enqueued.
  struct input_buffer {
    input_buffer(device& owner, mutable_bytes region) : bytes(region), landed(owner), sent(owner) {}

    mutable_bytes bytes;
    event landed; ///< After the copies into it.
    event sent;   ///< After the gather that sent it.
  };

  /// What there is only while the backend is enabled.
  struct lanes {
    lanes(device& owner, std::size_t most_slots, std::span<const mutable_bytes> slot_bytes,
          std::span<const mutable_bytes> input_bytes, bool computes);

    std::deque<slot> slots;          ///< As many as there may be; those to come have no bytes.
    std::deque<input_buffer> inputs; ///< Empty if nothing is gathered.
    event gathers_drained;           ///< After everything on the communication stream then.
    std::optional<stream> compute;   ///< Nothing: callers have streams of their own.
    std::vector<stream_id> used;     ///< Compute streams that work went to.
    event joined;                    ///< After everything on a stream when a use left it.
    event residents_ready;           ///< After the copies of all residents.
    event drained;                   ///< After everything on the copy stream when it was drained.
    std::optional<staging_buffers> staging; ///< Of the copy worker and the packer, in turns.
  };

  /// `most_slots` is how many there may ever be.
  streaming(device& owner, const transfer_plan& plan, std::size_t slots, std::size_t most_slots);

  /// Shows blocks and their copies to a profiler; null: does not.
  void narrate(std::shared_ptr<profile_ranges> ranges) noexcept { ranges_ = std::move(ranges); }
  [[nodiscard]] profile_ranges* ranges() const noexcept { return ranges_.get(); }

  /// Lets blocks compute on the streams of whoever calls them; null: on a stream made for them.
  /// @pre not open
  void compute_on(std::shared_ptr<caller_streams> callers) noexcept {
    callers_ = std::move(callers);
  }

  [[nodiscard]] device& owner() const noexcept { return *owner_; }
  [[nodiscard]] std::span<const planned_ring> rings() const noexcept { return rings_; }
  /// Returns how many slots there are now.
  [[nodiscard]] std::size_t slot_count() const noexcept { return slot_count_.load(); }
  [[nodiscard]] std::size_t most_slots() const noexcept { return most_slots_; }
  [[nodiscard]] std::size_t block_count() const noexcept { return blocks_.size(); }
  [[nodiscard]] const block& at(block_id id) const noexcept;
  [[nodiscard]] std::span<const resident> residents() const noexcept { return residents_; }
  [[nodiscard]] ticket_board& board() noexcept { return board_; }

  /// Of the copy worker, of the communication worker, and of the packer.
  [[nodiscard]] const std::shared_ptr<work_permit>& copying() const noexcept { return copying_; }
  [[nodiscard]] const std::shared_ptr<work_permit>& exchanging() const noexcept {
    return exchanging_;
  }
  [[nodiscard]] const std::shared_ptr<work_permit>& packing() const noexcept { return packing_; }

  /// @pre open
  [[nodiscard]] slot& at(slot_id id) noexcept;

  /// Returns the stream that the calling thread computes on. @pre open
  /// @throws as `caller_streams::current`
  [[nodiscard]] stream_id compute();

  /// Lets `on` wait for what `others` have been given, so that an event that is recorded on it next
  /// stands for all of them. @pre open
  void join(stream_id on, std::span<const stream_id> others);

  /// Orders every use of residents from now on behind their load. @pre open
  void admit_residents();

  /// Blocks the calling thread until every stream that blocks have computed on has run dry.
  /// @pre open
  void drain_compute(wait_edge edge);

  [[nodiscard]] event& residents_ready() noexcept { return lanes_->residents_ready; }
  [[nodiscard]] event& drained() noexcept { return lanes_->drained; }
  [[nodiscard]] event& gathers_drained() noexcept { return lanes_->gathers_drained; }

  /// Returns the buffer of the `sequence`th piece that ranks send. @pre open, `gathers()`
  [[nodiscard]] input_buffer& input(std::uint64_t sequence) noexcept;

  /// Lets the model thread ask whether what was gathered can be used.
  void share(std::shared_ptr<const communicator> ranks) noexcept { ranks_ = std::move(ranks); }
  [[nodiscard]] std::optional<failure> group_failure() const {
    return ranks_ == nullptr ? std::nullopt : ranks_->asynchronous_failure();
  }

  /// Counts what the communication worker has enqueued. Thread-safe.
  void count_gather(std::size_t bytes) noexcept {
    collectives_.fetch_add(1, std::memory_order_relaxed);
    gathered_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t collectives() const noexcept { return collectives_.load(); }
  [[nodiscard]] std::uint64_t gathered_bytes() const noexcept { return gathered_bytes_.load(); }

  /// Count what the model thread does with blocks: uses, and the passes through them. Thread-safe.
  void count_use() noexcept { uses_.fetch_add(1, std::memory_order_relaxed); }
  void count_pass() noexcept { passes_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t uses() const noexcept { return uses_.load(); }
  [[nodiscard]] std::uint64_t passes() const noexcept { return passes_.load(); }

  /// Returns whether any block is gathered.
  [[nodiscard]] bool gathers() const noexcept { return gathers_; }

  /// Makes the buffers that blocks go through from now on, if they need it. @pre open
  /// @throws device_error
  void add_staging(std::size_t bytes);
  /// Returns them, null if there are none.
  [[nodiscard]] staging_buffers* staging() noexcept {
    return lanes_ && lanes_->staging ? &*lanes_->staging : nullptr;
  }

  /// `binds_originals` says that whoever uses the block can compute with its originals, which is
  /// done where the device does and some of them lie in files, all as they are computed with. What
  /// is replaced leaves the files: a later call for the same block allocates nothing.
  void add_sources(block_id id, sources from, bool binds_originals = false);
  void add_shard(block_id id, gathering how) noexcept;
  void add_resident(mutable_bytes target, sources from);
  void point_resident(std::size_t index, sources from) noexcept { residents_[index].from = from; }

  /// Adds a slot, which the prefetcher fills from the next request on. @pre open, fewer than
  /// `most_slots()`
  void add_slot(mutable_bytes region) noexcept;

  /// Makes the events, and the compute stream if it needs one. @pre a region for every slot there
  /// is
  void open(std::span<const mutable_bytes> slot_bytes, std::span<const mutable_bytes> input_bytes);
  [[nodiscard]] bool is_open() const noexcept { return lanes_.has_value(); }

  /// Destroys them again, and ends the permits. @pre their work has run, and the board has failed
  /// and was left
  void close() noexcept;

private:
  [[nodiscard]] bool stages(const block& which) noexcept;

  device* owner_;
  std::vector<planned_ring> rings_;
  std::vector<block> blocks_;
  std::vector<resident> residents_;
  std::atomic<std::size_t> slot_count_;
  std::size_t most_slots_;
  bool gathers_;
  std::shared_ptr<const communicator> ranks_;
  std::shared_ptr<caller_streams> callers_;
  std::shared_ptr<profile_ranges> ranges_;
  std::atomic<std::uint64_t> collectives_{0};
  std::atomic<std::uint64_t> gathered_bytes_{0};
  std::atomic<std::uint64_t> uses_{0};
  std::atomic<std::uint64_t> passes_{0};
  ticket_board board_;
  std::shared_ptr<work_permit> copying_ = std::make_shared<work_permit>();
  std::shared_ptr<work_permit> exchanging_ = std::make_shared<work_permit>();
  std::shared_ptr<work_permit> packing_ = std::make_shared<work_permit>();
  std::optional<lanes> lanes_;
};

} // namespace ferry
