// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/spawn.hpp>
#include <ferry/messages/block_prefetcher.hpp>
#include <ferry/messages/cache_retention.hpp>
#include <ferry/messages/component_stager.hpp>
#include <ferry/messages/copy_stream.hpp>
#include <ferry/messages/errc.hpp>
#include <ferry/messages/host_memory.hpp>
#include <ferry/messages/offloader.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/host_thread.hpp>

#include "block_port.hpp"
#include "gather_limit.hpp"
#include "group_port.hpp"
#include "placement.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace ferry {

/// See `offloader_actor`. May block: while it pins, and while it waits for streams to run dry.
class offloader final : public offloader_actor::base {
public:
  offloader(caf::actor_config& config, std::shared_ptr<device> owner, offloader_options options,
            host_memory_actor memory, copy_stream_actor copies, block_prefetcher_actor prefetcher,
            component_stager_actor stager, supervisor_actor supervisor);

  behavior_type make_behavior() override;
  const char* name() const override { return "offloader"; }
  void on_exit() override;

private:
  enum class phase : std::uint8_t {
    idle,
    enabling,
    enabled,
    changing, ///< A request begins, ends or is announced.
    disabling,
    incomplete ///< A disable failed; only disable works.
  };
  static constexpr int most_undo_attempts = 3; ///< One that fails may succeed the next time.

  using result_handler = std::function<void(result<answered>)>;
  using undo_handler = std::function<void(const result<void>&)>;

  // As a child.
  void start();
  void drain(const drain_child& message);
  caf::result<answered> release(const release_child& message);
  void continue_release();
  void retry_pages();
  void deliver_release(const failure& reason);

  // Enable: plan, lease pinned memory, take device memory, prepare, load residents, bind them, open
  // the ring.
  caf::result<enabled> enable(const enable_pipeline& message);
  caf::result<enabled> enable(const enable_weights& message);
  caf::result<enabled> place(std::unique_ptr<placement> what, const causal_stamp& stamp);
  caf::result<enabled> vote_without_blocks(const enable_pipeline& message, enabled answer);
  [[nodiscard]] enabled delegate(const enable_pipeline& message);
  void undo_delegate();
  void lease(std::vector<pin_candidate> stores, const causal_stamp& stamp);
  void take_memory(const pin_plan& pins, const causal_stamp& stamp);
  [[nodiscard]] result<causal_stamp> carve(const causal_stamp& stamp);
  void prepare(const pin_plan& pins, const result<causal_stamp>& carved);
  void load_residents(const causal_stamp& prepared);
  void bind(const causal_stamp& residents_loaded);
  void vote(const causal_stamp& bound);
  void ask_gate(std::function<void(const result<void>&)> then);
  void open(const causal_stamp& bound);
  void finish_enable(const causal_stamp& primed);
  void abandon_enable(failure cause);
  [[nodiscard]] std::optional<placement_plan> plan(const enable_pipeline& message) const;
  [[nodiscard]] rank_place where() const noexcept;
  /// How long a piece may wait for a staging buffer beyond what it takes by itself: the copy out of
  /// the buffer may be behind a gather, which waits for the slowest rank.
  [[nodiscard]] std::chrono::milliseconds behind_gathers() const;
  void leave_ranks_because(const failure& cause);
  [[noreturn]] void refuse_start(failure cause);
  [[nodiscard]] slot_numbers slots_of(const offload_config& config) const noexcept;
  void check_idle() const;

  // Disable, also of what was half enabled: close the ring, drain the streams, take everything
  // back.
  caf::result<answered> disable(const disable_backend& message);
  [[nodiscard]] answered disable_delegate(const causal_stamp& stamp);
  struct drain_answers {
    result<answered> staged;
    result<answered> copied;
    result<answered> gathered;
    result<answered> packed;
  };
  using drain_handler = std::function<void(const drain_answers&)>;

  void tear_down(const causal_stamp& stamp, undo_handler then);
  void drain_all(const causal_stamp& stamp, drain_handler then);
  void let_go_unless_running(result<void> dry, const undo_handler& then);
  void let_go(undo_handler then);
  void close_workers(undo_handler then);
  [[nodiscard]] result<void> wait_for_streams(const drain_answers& answers);
  [[nodiscard]] result<void> withdraw_permits();
  void withdraw_packing();
  [[nodiscard]] bool can_go_on_without_answers(const failure& reason) const;
  [[nodiscard]] result<void> take_back();

  // The same once this actor was ended before its time; also answers who still waits for it.
  void take_back_alone();
  void answer_all(const failure& cause);
  [[nodiscard]] result<void> undo_alone();

  // Requests.
  struct waiting_request {
    request_id id{};
    std::chrono::steady_clock::time_point until;
    causal_stamp stamp;
    wave_terms wave;
    caf::typed_response_promise<answered> promise;
    bool withdrawn = false; ///< Nobody waits for it; it only takes its turn among the ranks.
  };

  caf::result<answered> queue(const queue_request& message);
  [[nodiscard]] bool can_queue() const noexcept;
  void begin_next();
  void begin(waiting_request next);
  void begin_settled(waiting_request next);
  void join(waiting_request next);
  void leave_if_apart(const failure& cause);
  void begin_blocks(waiting_request next);
  [[nodiscard]] result<causal_stamp> add_slots(const causal_stamp& stamp);
  void settle(result_handler then);
  void expire();
  [[nodiscard]] bool ranks_gather() const noexcept;
  /// Answers whoever waits for it. Returns whether it is to be forgotten, and not to take its turn.
  [[nodiscard]] bool withdraw(waiting_request& which, failure cause);
  void cancel(const cancel_request& message);
  /// A cancel that comes from now on finds nothing to cancel.
  void end_run() noexcept;
  void refuse_waiting(const failure& cause);
  caf::result<answered> end(const end_request& message);
  void end_begun(const caf::typed_response_promise<answered>& promise, const causal_stamp& stamp);
  caf::result<answered> announce(const announce_blocks& message);
  caf::result<answered> stage(const stage_component& message);
  void finish_change(const caf::typed_response_promise<answered>& promise, result<answered> outcome,
                     bool in_request);
  /// Ends a request although what it had to do for that failed.
  void give_up(const caf::typed_response_promise<answered>& promise, failure cause);
  void check_enabled() const;

  /// A failure of the model thread is on the board before the supervisor tells of it.
  [[nodiscard]] bool board_failed() const noexcept;
  [[nodiscard]] bool has_failed() const noexcept;

  // Weights: quiet everything, rewrite the masters, load the residents again, go on.
  struct weight_change {
    std::shared_ptr<const weight_update> update;
    std::vector<weight_place> places;
    std::unique_ptr<weight_rewrite> rewrite;
    caf::typed_response_promise<weights_updated> promise;
  };
  using change_ptr = std::shared_ptr<weight_change>;

  caf::result<weights_updated> update(const update_weights& message);
  [[nodiscard]] component_read read(const read_component& message);
  void hold_model_off();
  void quiet(const causal_stamp& stamp, undo_handler then);
  void rewrite(const change_ptr& change);
  void load_residents_again(const causal_stamp& stamp, undo_handler then);
  void undo_update(const change_ptr& change, const failure& cause);
  void finish_update(const change_ptr& change, result<weight_version> outcome);

  caf::result<offload_state> query();
  [[nodiscard]] offload_state describe(const ring_counts& counts) const;

  /// Takes over what a message brought, and returns what the offloader knows then.
  [[nodiscard]] causal_stamp observed(const causal_stamp& stamp);

  static void deliver(caf::typed_response_promise<answered> promise, result<answered> outcome);

  /// Remembers who waits for the transition that begins.
  template <class Answer>
  void owe(caf::typed_response_promise<Answer> promise) {
    owed_ = [promise](const failure& cause) mutable { promise.deliver(to_error(cause)); };
  }

  /// Tells the model thread, wherever it waits, that nothing more is coming.
  void fail_boards(const failure& cause);

  /// Asks the prefetcher or the component stager, if the backend has blocks or groups. What it has
  /// not counts as done.
  template <class Message, class Then>
  void ask_ring(Message message, Then then) {
    if (placement_ == nullptr || placement_->plan().transfers.blocks.empty())
      then(result<answered>{answered{std::move(message.stamp)}});
    else
      ask(prefetcher_, std::move(message), std::move(then));
  }
  template <class Message, class Then>
  void ask_groups(Message message, Then then) {
    if (placement_ == nullptr || placement_->groups()->empty())
      then(result<answered>{answered{std::move(message.stamp)}});
    else
      ask(stager_, std::move(message), std::move(then));
  }

  template <class Message, class Then>
  void ask_gathers(Message message, Then then) {
    if (placement_ == nullptr || !placement_->through()->gathers())
      then(result<answered>{answered{std::move(message.stamp)}});
    else
      ask(options_.peers->gathers, std::move(message), std::move(then));
  }

  template <class Message, class Then>
  void ask_packer(Message message, Then then) {
    if (placement_ == nullptr || placement_->through()->staging() == nullptr)
      then(result<answered>{answered{std::move(message.stamp)}});
    else
      ask(options_.packer, std::move(message), std::move(then));
  }

  /// Asks another actor and calls `then` with its answer, on this actor.
  template <class Handle, class Message, class Then>
  void ask(const Handle& whom, Message message, Then then) {
    inquire(this, whom, options_.request_deadline, std::move(message))
        .then([then](const answered& answer) { then(result<answered>{answer}); },
              [then](const caf::error& reason) {
                then(result<answered>{tl::unexpected(to_failure(reason))});
              });
  }

  std::shared_ptr<device> owner_;
  offloader_options options_;
  slot_numbers slots_; ///< Of the backend that is enabled.
  host_memory_actor host_memory_;
  copy_stream_actor copies_;
  block_prefetcher_actor prefetcher_;
  component_stager_actor stager_;
  supervisor_actor supervisor_;
  cache_retention_actor retention_; ///< Null: nothing keeps anything.
  std::optional<host_thread> me_;
  phase phase_ = phase::idle;
  bool in_request_ = false;
  bool unsettled_ = false; ///< The end of the last request is not known to have reached the others.
  std::optional<request_id> running_; ///< The request that runs, begins or ends.
  bool may_leave_ = true;             ///< It, while ranks that gather blocks run others.
  bool at_gate_ = false;              ///< It waits there for the other ranks.
  std::deque<waiting_request> waiting_;
  std::optional<failure> refusal_;      ///< Set once drained.
  bool failed_ = false;                 ///< The refusal is a failure, not a stop.
  std::optional<pipeline_claim> claim_; ///< On what is enabled, unless it is bare weights.
  std::unique_ptr<placement> placement_;
  std::shared_ptr<pipeline> delegate_; ///< Offloads itself; then there is no placement.
  std::shared_ptr<block_port> port_;
  std::shared_ptr<group_port> group_port_;
  rank_ballot ballot_;            ///< Of the enable under way.
  std::optional<lease_id> lease_; ///< Of the masters, while there are any.
  std::uint64_t allocations_before_ = 0;
  caf::typed_response_promise<enabled> enabling_;
  caf::typed_response_promise<answered> releasing_;
  std::function<void(const failure&)> owed_; ///< Meaningful during a transition.
  std::map<std::uint64_t, caf::typed_response_promise<offload_state>> queries_; ///< Unanswered.
  std::uint64_t last_query_ = 0;
  std::chrono::steady_clock::time_point release_until_;
  int release_attempts_ = 0;
  std::optional<gather_limit> limit_; ///< Of a release, until the streams are dry.
};

} // namespace ferry
