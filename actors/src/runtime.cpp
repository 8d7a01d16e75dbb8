// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/actors/runtime.hpp"

#include <ferry/actors/crew.hpp>
#include <ferry/actors/trace_log.hpp>
#include <ferry/messages/ask.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/messages/type_ids.hpp>
#include <ferry/offload/bare_weights.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "guarded.hpp"

#include <atomic>
#include <mutex>
#include <utility>

namespace ferry {
namespace {

class system_config final : public caf::actor_system_config {
public:
  explicit system_config(const runtime_options& options) {
    add_types<caf::id_block::ferry_messages>(*this);
    ferry::add_error_category(*this);
    use_workers(*this, options.worker_threads);
    if (const auto log = options.trace)
      on_each_thread(*this, [log] {
        trace_log::use_on_this_thread(log.get());
        sending_clock() = [owner = &log->owner()] { return owner->now(); };
      });
  }
};

/// Lets a meter and a log, where they are not null, see what a device does.
class observation {
public:
  observation(device& target, std::shared_ptr<request_meter> meter, std::shared_ptr<trace_log> log)
      : target_(&target), meter_(std::move(meter)), log_(std::move(log)) {
    if (meter_ != nullptr)
      target_->attach(*meter_);
    if (log_ != nullptr)
      target_->attach(*log_);
  }
  observation(const observation&) = delete;
  observation& operator=(const observation&) = delete;
  ~observation() {
    if (meter_ != nullptr)
      target_->detach(*meter_);
    if (log_ == nullptr)
      return;
    target_->detach(*log_);
    log_->flush();
  }

private:
  device* target_;
  std::shared_ptr<request_meter> meter_;
  std::shared_ptr<trace_log> log_;
};

/// One started actor system. The handles go before it: it waits for every actor to be gone.
struct engine {
  engine(const std::shared_ptr<device>& target, const runtime_options& options,
         std::shared_ptr<request_meter> meter)
      : observed(*target, options.measure_requests || options.trace ? std::move(meter) : nullptr,
                 options.trace),
        config(options), system(config), who(spawn_crew(system, target, options)) {}
  // The supervisor ends its children, and the owner of the system the supervisor.
  ~engine() { kill(who->supervisor); }

  observation observed; ///< Until every actor is gone.
  system_config config;
  caf::actor_system system;
  std::shared_ptr<crew> who;
};

} // namespace

struct runtime::impl {
  impl(std::shared_ptr<device> target_, runtime_options options_)
      : target(std::move(target_)), options(options_) {}

  [[nodiscard]] result<std::shared_ptr<engine>> running() const {
    const std::lock_guard lock{mutex};
    if (current == nullptr)
      return tl::unexpected(failure{errc::not_enabled, "the runtime is not started"});
    return current;
  }

  /// Asks the offloader, with stamps both ways.
  template <class Answer, class Message>
  [[nodiscard]] result<Answer> call(Message message, std::chrono::milliseconds deadline) const {
    auto at = running();
    if (!at)
      return tl::unexpected(std::move(at.error()));
    return attempt([&]() -> result<Answer> {
      message.stamp = target->stamp();
      auto answer = ask<Answer>((*at)->system, (*at)->who->offloader, deadline, std::move(message));
      if (answer)
        target->observe(answer->stamp);
      return answer;
    });
  }

  template <class Message>
  [[nodiscard]] result<void> tell(Message message, std::chrono::milliseconds deadline) const {
    return call<answered>(std::move(message), deadline).map([](const answered&) {});
  }

  template <class Message>
  [[nodiscard]] result<std::shared_ptr<block_gate>> enable(Message message) {
    return call<enabled>(std::move(message), options.enable_deadline)
        .map([&](enabled&& answer) {
          const std::lock_guard lock{mutex};
          return gate = std::move(answer.gate);
        })
        .map([this](std::shared_ptr<block_gate> opened) {
          name_blocks();
          return opened;
        });
  }

  /// Tells the trace how blocks are called.
  void name_blocks() const {
    const auto at = running();
    if (options.trace == nullptr || !at)
      return;
    if (const auto now = ask<offload_state>((*at)->system, (*at)->who->offloader,
                                            options.request_deadline, query_offload{}))
      options.trace->name_blocks(now->blocks);
  }

  std::shared_ptr<device> target;
  runtime_options options;
  std::mutex lifecycle; ///< One start or stop at a time.
  mutable std::mutex mutex;
  std::shared_ptr<engine> current;
  std::atomic<std::uint64_t> last_request{0};
  std::shared_ptr<request_meter> meter = std::make_shared<request_meter>();
  std::shared_ptr<block_gate> gate; ///< Of the latest backend; a disabled one does nothing.
};

namespace {

// Ranks would have to come to the same decision at the same time.
void check_growth(std::size_t slots, std::size_t most, bool with_ranks) {
  const auto limit = std::max(slots, most_useful_slots);
  if (most < slots || most > limit)
    throw ferry_error{{errc::invalid_argument, "most_slots is " + std::to_string(most) +
                                                   "; expected from " + std::to_string(slots) +
                                                   " to " + std::to_string(limit)}};
  if (with_ranks && most != slots)
    throw ferry_error{{errc::invalid_argument, "most_slots is " + std::to_string(most) +
                                                   " with ranks, which keep their " +
                                                   std::to_string(slots) + " slots; leave it out"}};
}

} // namespace

runtime::runtime(std::shared_ptr<device> target, runtime_options options) {
  if (target == nullptr)
    throw ferry_error{{errc::invalid_argument, "the runtime needs a device"}};
  if (options.slots == 0)
    throw ferry_error{{errc::invalid_argument, "slots is 0; expected at least 1"}};
  if (options.most_slots)
    check_growth(options.slots, *options.most_slots, options.ranks.has_value());
  if (options.worker_threads == 0)
    throw ferry_error{{errc::invalid_argument, "worker_threads is 0; expected at least 1"}};
  impl_ = std::make_unique<impl>(std::move(target), options);
}

runtime::~runtime() {
  if (auto done = stop(impl_->options.stop_deadline); !done) {
    log(log_level::error, "ferry.actors", "abandon runtime reason=" + describe(done.error()));
    // An actor that is late may still use all this: better kept for ever than taken away.
    static_cast<void>(new std::shared_ptr<engine>{std::move(impl_->current)});
  }
}

result<void> runtime::start() {
  const std::lock_guard one{impl_->lifecycle};
  if (impl_->running())
    return tl::unexpected(failure{errc::already_enabled, "the runtime is started"});
  if (impl_->options.ranks && impl_->options.ranks->gathers == nullptr)
    return tl::unexpected(failure{errc::not_enabled, "the runtime has left its group of ranks"});
  return attempt([&]() -> result<void> {
    auto made = std::make_shared<engine>(impl_->target, impl_->options, impl_->meter);
    auto started = ask<void>(made->system, made->who->supervisor,
                             4 * impl_->options.request_deadline, start_children{});
    if (!started)
      return started;
    const std::lock_guard lock{impl_->mutex};
    impl_->current = std::move(made);
    return {};
  });
}

result<void> runtime::stop(std::chrono::milliseconds deadline) {
  const std::lock_guard one{impl_->lifecycle};
  auto at = impl_->running();
  if (!at)
    return {};
  auto done = ask<stopped>((*at)->system, (*at)->who->supervisor,
                           deadline + std::chrono::seconds{1}, stop_children{deadline});
  if (!done)
    return tl::unexpected(failure{done.error().code, "supervisor: " + done.error().detail});
  for (const auto& each : done->stamps)
    impl_->target->observe(each);
  if (!done->late.empty())
    return tl::unexpected(failure{errc::deadline_exceeded, "late to stop: " + done->late.front()});
  at->reset();
  std::optional<rank_group> left;
  std::shared_ptr<engine> gone;
  {
    const std::lock_guard lock{impl_->mutex};
    if (impl_->options.ranks)
      left = std::exchange(impl_->options.ranks, rank_group{});
    gone = std::move(impl_->current);
  }
  return {};
}

result<void> runtime::enable(std::shared_ptr<pipeline> subject, const offload_config& config) {
  return impl_->enable(enable_pipeline{std::move(subject), config, {}})
      .map([](const std::shared_ptr<block_gate>&) {});
}

result<void> runtime::enable(std::shared_ptr<pipeline> subject, const offload_config& config,
                             std::shared_ptr<host_lease> lease,
                             std::shared_ptr<loader_transforms> transforms) {
  return impl_
      ->enable(
          enable_pipeline{std::move(subject), config, {}, std::move(lease), std::move(transforms)})
      .map([](const std::shared_ptr<block_gate>&) {});
}

result<std::shared_ptr<block_gate>> runtime::enable(std::shared_ptr<const bare_weights> weights) {
  return impl_->enable(enable_weights{std::move(weights), {}});
}

result<void> runtime::disable() {
  return impl_->tell(disable_backend{}, impl_->options.enable_deadline);
}

request_id runtime::new_request() noexcept {
  return request_id{++impl_->last_request};
}

result<void> runtime::begin_request(request_id id, wave_terms wave) {
  const auto patience = impl_->options.request_deadline;
  // The offloader answers in time itself; only when it hangs is the later deadline met.
  auto begun = impl_->tell(queue_request{id, patience, {}, std::move(wave)}, 2 * patience);
  if (begun)
    impl_->meter->begin();
  return begun;
}

result<request_id> runtime::begin_request(wave_terms wave) {
  const auto id = new_request();
  return begin_request(id, std::move(wave)).map([id] { return id; });
}

result<void> runtime::cancel_request(request_id id) {
  auto at = impl_->running();
  if (!at)
    return tl::unexpected(std::move(at.error()));
  return ask<void>((*at)->system, (*at)->who->offloader, impl_->options.request_deadline,
                   ferry::cancel_request{id});
}

result<void> runtime::stage_in(std::string path) {
  return impl_->tell(stage_component{std::move(path), true, {}}, impl_->options.request_deadline);
}

result<void> runtime::stage_out(std::string path) {
  return impl_->tell(stage_component{std::move(path), false, {}}, impl_->options.request_deadline);
}

result<void> runtime::end_request() {
  auto patience = impl_->options.request_deadline;
  // As above: what was staged last may be behind a gather, as the offloader knows.
  {
    const std::lock_guard lock{impl_->mutex};
    if (const auto& ranks = impl_->options.ranks)
      patience += std::chrono::ceil<std::chrono::milliseconds>(ranks->patience);
  }
  auto ended = impl_->tell(ferry::end_request{}, patience);
  if (ended)
    impl_->meter->end();
  // What is not offloaded may lie in files as well.
  return ended.and_then([] { return check_lost_pages(); });
}

failure runtime::leave_ranks(failure cause) {
  const auto own = [&] {
    const std::lock_guard lock{impl_->mutex};
    return impl_->options.ranks.value_or(rank_group{});
  }();
  if (own.meeting == nullptr || own.gathers == nullptr)
    return cause;
  cause = own.gathers->asynchronous_failure().value_or(std::move(cause));
  cause.rank = cause.rank.value_or(own.meeting->rank());
  own.meeting->poison(cause);
  cause = own.meeting->failed().value_or(std::move(cause));
  own.gathers->abort(cause);
  if (const auto at = impl_->running())
    post((*at)->who->supervisor, child_failed{"model", 0, cause});
  return cause;
}

result<void> runtime::announce(std::vector<block_id> blocks) {
  return impl_->tell(announce_blocks{std::move(blocks), {}}, impl_->options.request_deadline);
}

result<weight_version> runtime::update_weights(weight_update update) {
  auto shared = std::make_shared<const weight_update>(std::move(update));
  return impl_
      ->call<weights_updated>(ferry::update_weights{std::move(shared), {}},
                              impl_->options.enable_deadline)
      .map([](const weights_updated& answer) { return answer.version; });
}

result<weight_snapshot> runtime::read_weights(std::string component,
                                              std::vector<std::string> names) {
  return impl_
      ->call<component_read>(read_component{std::move(component), std::move(names), {}},
                             impl_->options.enable_deadline)
      .map([](component_read&& answer) { return std::move(answer.snapshot); });
}

void runtime::mark(const char* what) {
  const auto gate = [&] {
    const std::lock_guard lock{impl_->mutex};
    return impl_->gate;
  }();
  if (gate != nullptr)
    gate->mark(what);
}

request_sums runtime::requests() const {
  return impl_->meter->sums();
}

result<offload_state> runtime::state() const {
  auto at = impl_->running();
  if (!at)
    return tl::unexpected(std::move(at.error()));
  return ask<offload_state>((*at)->system, (*at)->who->offloader, impl_->options.request_deadline,
                            query_offload{});
}

} // namespace ferry
