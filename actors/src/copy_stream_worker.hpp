// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/comm_stream.hpp>
#include <ferry/messages/copy_stream.hpp>
#include <ferry/messages/errc.hpp>
#include <ferry/messages/host_packer.hpp>
#include <ferry/messages/supervisor.hpp>

#include "device_worker.hpp"
#include "streaming.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <variant>
#include <vector>

namespace ferry {

/// See `copy_stream_actor`.
class copy_stream_worker final : public device_worker<copy_stream_actor::base, streaming> {
public:
  copy_stream_worker(caf::actor_config& config, std::shared_ptr<device> owner,
                     supervisor_actor supervisor);

  behavior_type make_behavior() override;
  const char* name() const override { return "copy_stream_worker"; }
  void on_exit() override;

private:
  void start(const start_child& message);
  void drain(const drain_child& message);

  answered open(const open_copies& message);
  answered reload(const reload_residents& message);
  void fetch(const fetch_block& message);
  void sent(const piece_sent& message);
  void discard(const discard_slot& message);
  caf::result<answered> drain(const drain_copies& message);
  answered close(const close_copies& message);

  // Work on slots is done in the order asked for. What writes to a slot itself waits until every
  // gather before it is enqueued; a piece of a gather waits for a free buffer. What is asked for
  // behind a staged block waits until all its pieces are packed.
  using slot_work = std::variant<fetch_block, discard_slot>;

  void ask(slot_work work);
  void go_on();
  [[nodiscard]] bool done(slot_work& work);
  void fetch_now(const fetch_block& message);
  [[nodiscard]] bool send_pieces(fetch_block& message);
  [[nodiscard]] bool stage_pieces(const fetch_block& message);
  void ask_packer(const fetch_block& message, std::size_t piece);
  void packed(const fetch_block& message, std::size_t piece, const result<answered>& outcome);
  void copy_piece(const fetch_block& message, std::size_t piece, const causal_stamp& packed);
  void discard_now(const discard_slot& message);
  [[nodiscard]] bool pages_are_there(block_id block) const;
  void get_pages(slot_id slot, block_id block, operation_tag tag);
  void give_pages_back(slot_id slot);
  void answer_drains();
  [[nodiscard]] answered record_drained(const causal_stamp& stamp);
  void wait_for_gathers();
  void wait_for_gather(std::uint64_t piece);
  void load_residents();
  void copy_all(streaming::sources from, mutable_bytes target, operation_tag tag);
  void fail(failure reason);

  supervisor_actor supervisor_;
  std::uint64_t generation_ = 0;

  // Gathers of the open backend.
  struct drain_request {
    causal_stamp stamp;
    caf::typed_response_promise<answered> promise;
  };
  comm_stream_actor gathers_;
  std::deque<slot_work> waiting_;
  std::vector<drain_request> drains_;
  std::uint64_t ahead_ = 0;    ///< A piece waits for the gather of the one so many before it.
  std::uint64_t pieces_ = 0;   ///< Told to the communication worker.
  std::uint64_t sent_ = 0;     ///< Of them, those whose gather is enqueued.
  bool gathered_last_ = false; ///< A gather was the last to write to a slot.
  std::array<causal_stamp, transfer_plan::inputs> known_; ///< When the last piece was sent.

  // Staged blocks of the open backend. Their pieces take turns at the buffers.
  host_packer_actor packer_;
  std::chrono::nanoseconds patience_{}; ///< For each piece.
  std::uint64_t first_turn_ = 0;        ///< Of the block that is being staged.
  std::uint64_t asked_ = 0;             ///< Pieces that the packer was asked for.
  std::uint64_t copied_ = 0;            ///< Of them, those whose copy is enqueued.
};

} // namespace ferry
