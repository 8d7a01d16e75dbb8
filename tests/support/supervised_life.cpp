// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/supervised_life.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace ferry::test {
namespace {

using namespace std::chrono_literals;

constexpr auto question_deadline = 5s;
constexpr auto stop_deadline = 20s;
constexpr auto patience = 60s; ///< More than any answer may take.

using tensor_set = std::set<const fake_tensor*>;

/// Returns the bytes of a tensor as it is seen now, others if it is one of `turned`. Throws if it
/// is parked.
std::vector<std::byte> contents_of(const fake_tensor& tensor, const tensor_set& turned) {
  const auto seen = tensor.bytes();
  std::vector<std::byte> all(seen.begin(), seen.end());
  if (turned.contains(&tensor))
    for (auto& each : all)
      each ^= std::byte{0x80};
  return all;
}

/// Returns the bytes of every tensor at and under `from`, as above.
std::vector<std::byte> everything(const fake_module& from, const tensor_set& turned = {}) {
  std::vector<std::byte> all;
  for (const auto& [name, tensor] : from.own_tensors()) {
    const auto seen = contents_of(*tensor, turned);
    all.insert(all.end(), seen.begin(), seen.end());
  }
  for (const auto& [name, below] : from.own_children()) {
    const auto more = everything(*below, turned);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

using named_tensors = std::vector<std::pair<std::string, fake_tensor_ptr>>;

/// Returns every tensor at and under `from`, with its dotted name.
named_tensors tensors_of(const fake_module& from, const std::string& prefix = "") {
  named_tensors all;
  for (const auto& [name, tensor] : from.own_tensors())
    all.emplace_back(prefix + name, tensor);
  for (const auto& [name, below] : from.own_children()) {
    auto more = tensors_of(*below, prefix + name + ".");
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

/// Always keeps more than it may.
struct full_cache final : allocator_cache {
  [[nodiscard]] result<cache_telemetry> telemetry() const override {
    return cache_telemetry{.free = 400, .total = 1000, .reserved = 600, .allocated = 0};
  }
  void release() override {}
};

} // namespace

supervised_life::supervised_life(std::shared_ptr<fake_pipeline> model,
                                 std::shared_ptr<sim_device> gpu, life_plan what,
                                 std::optional<rank_group> ranks)
    : model_(std::move(model)), gpu_(std::move(gpu)), what_(std::move(what)),
      ranks_(std::move(ranks)) {
  versions_ = {weights_now(false), weights_now(true)};
  if (what_.lease)
    lease_ = what_.lease();
  supervisor_ = faults_.wire(spawn_supervisor(world_.system(), steps(), question_deadline));
}

supervised_life::~supervised_life() {
  kill(supervisor_);
  faults_.end();
}

supervised_life::weights supervised_life::weights_now(bool updated) const {
  const auto changing =
      what_.updated.empty() ? named_tensors{} : tensors_of(*model_->tree()->at(what_.updated));
  tensor_set turned;
  if (updated)
    for (const auto& [name, tensor] : changing)
      turned.insert(tensor.get());
  weights now{.called = {}, .all = everything(*model_->tree(), turned), .values = {}};
  for (const auto& path : what_.calls)
    now.called.emplace(path, everything(*model_->tree()->at(path), turned));
  for (const auto& [name, tensor] : changing) {
    const auto owner = std::make_shared<const contents>(contents_of(*tensor, turned));
    now.values.push_back({name, tensor->type, tensor->shape, *owner, owner});
  }
  return now;
}

std::vector<start_step> supervised_life::steps() {
  auto& system = world_.system();
  const offloader_options options{.acquire_deadline = 1ms, .request_deadline = question_deadline};
  std::vector<start_step> all{
      {"cache_retention",
       [this, &system]() -> child_actor {
         return retention_ = faults_.wire(spawn_cache_retention(
                    system, threading::pooled, std::make_shared<full_cache>(), {}));
       },
       when_it_ends::restart, [this] { introduce_retention(); }},
      {"host_memory",
       [this, &system]() -> child_actor {
         return memory_ = faults_.wire(spawn_host_memory(system, {}));
       }},
      {"host_packer",
       [this, &system]() -> child_actor {
         return packer_ = faults_.wire(spawn_host_packer(system, threading::pooled, gpu_));
       }},
      {"copy_stream_worker",
       [this, &system]() -> child_actor {
         return copies_ = faults_.wire(spawn_copy_stream_worker(system, gpu_, supervisor_));
       }},
  };
  for (auto& each : rank_steps())
    all.push_back(std::move(each));
  const std::vector<start_step> rest{
      {"block_prefetcher",
       [this, &system]() -> child_actor {
         return prefetcher_ =
                    faults_.wire(spawn_block_prefetcher(system, gpu_, copies_, supervisor_));
       }},
      {"component_stager",
       [this, &system]() -> child_actor {
         return stager_ = faults_.wire(spawn_component_stager(system, threading::pooled, gpu_));
       }},
      {"offloader",
       [this, &system, options]() -> child_actor {
         auto how = options;
         how.packer = packer_;
         if (ranks_)
           how.peers = {ranks_->gathers, ranks_->meeting, gathers_, gate_, ranks_->patience};
         offloader_ = faults_.wire(spawn_offloader(system, threading::pooled, gpu_, how, memory_,
                                                   copies_, prefetcher_, stager_, supervisor_));
         introduce_retention();
         return offloader_;
       }},
  };
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

std::vector<start_step> supervised_life::rank_steps() {
  if (!ranks_)
    return {};
  auto& system = world_.system();
  return {
      {"comm_stream_worker",
       [this, &system]() -> child_actor {
         return gathers_ = faults_.wire(spawn_comm_stream_worker(
                    system, threading::pooled, gpu_, ranks_->gathers, copies_, supervisor_));
       }},
      {"rank_gate",
       [this, &system]() -> child_actor {
         return gate_ = faults_.wire(
                    spawn_rank_gate(system, threading::pooled, ranks_->meeting, ranks_->patience));
       }},
  };
}

void supervised_life::introduce_retention() {
  if (stager_)
    post(stager_, use_cache_retention{retention_});
  if (offloader_)
    post(offloader_, use_cache_retention{retention_});
}

template <class Answer, class Handle, class Message>
result<Answer> supervised_life::ask(const Handle& whom, Message message) {
  auto asked = faults_.ask_for<Answer>(whom, std::move(message), patience);
  if (!faults_.struck_asker())
    longest_ = std::max(longest_, asked.waited);
  return std::move(asked.outcome);
}

template <class T>
bool supervised_life::noted(const result<T>& outcome) {
  if (!outcome && !failure_)
    failure_ = outcome.error();
  return outcome.has_value();
}

bool supervised_life::start() {
  return noted(ask<void>(supervisor_, start_children{}));
}

bool supervised_life::enable() {
  over_ = false;
  auto enabled_ =
      ask<enabled>(offloader_, enable_pipeline{model_, what_.config, gpu_->stamp(),
                                               std::exchange(leased_, true) ? nullptr : lease_});
  if (enabled_)
    gpu_->observe(enabled_->stamp);
  return noted(enabled_);
}

bool supervised_life::disable() {
  auto done = ask<answered>(offloader_, disable_backend{gpu_->stamp()});
  if (done)
    gpu_->observe(done->stamp);
  return noted(done);
}

bool supervised_life::stop() {
  auto done = ask<stopped>(supervisor_, stop_children{stop_deadline});
  if (!noted(done))
    return false;
  for (const auto& each : done->stamps)
    gpu_->observe(each);
  if (done->late.empty())
    return true;
  return noted(result<void>{tl::unexpected(failure{errc::deadline_exceeded, done->late.front()})});
}

bool supervised_life::begin() {
  const auto id = request_id{++last_request_};
  auto terms = wave();
  if (!noted(terms))
    return false;
  auto begun = ask<answered>(
      offloader_, queue_request{id, question_deadline, gpu_->stamp(), std::move(*terms)});
  if (begun)
    gpu_->observe(begun->stamp);
  in_request_ = begun.has_value();
  over_ = false;
  return noted(begun);
}

result<wave_terms> supervised_life::wave() {
  if (!ranks_)
    return wave_terms{};
  auto known = state();
  if (!known)
    return tl::unexpected(known.error());
  wave_terms terms{.steps = 1};
  for (const auto& path : what_.calls) {
    const auto at = std::ranges::find(known->blocks, path) - known->blocks.begin();
    terms.blocks.push_back(block_id{static_cast<std::uint32_t>(at)});
  }
  return terms;
}

bool supervised_life::end() {
  auto ended = ask<answered>(offloader_, end_request{gpu_->stamp()});
  if (ended)
    gpu_->observe(ended->stamp);
  over_ = over_ || ended || in_request_;
  in_request_ = false;
  return noted(ended);
}

bool supervised_life::call(const std::string& path) {
  over_ = false;
  try {
    model_->call(path, [&](fake_module& seen) {
      const auto bytes = everything(seen);
      for (std::size_t i = 0; i != versions_.size(); ++i)
        may_have_[i] = may_have_[i] && bytes == versions_[i].called.at(path);
    });
    const auto right = may_have_[0] || may_have_[1];
    faults_.dispatch();
    if (right)
      return true;
    ++wrong_;
    return noted(result<void>{tl::unexpected(failure{errc::internal, path + " saw other bytes"})});
  } catch (const ferry_error& e) {
    faults_.dispatch();
    return noted(result<void>{tl::unexpected(e.reason())});
  }
}

bool supervised_life::stage(const std::string& path, bool in) {
  auto staged = ask<answered>(offloader_, stage_component{path, in, gpu_->stamp()});
  if (staged)
    gpu_->observe(staged->stamp);
  return noted(staged);
}

bool supervised_life::update() {
  over_ = false;
  const std::size_t other = may_have_[0] ? 1 : 0;
  auto changed = std::make_shared<const weight_update>(
      weight_update{what_.updated, versions_.at(other).values});
  auto done = ask<weights_updated>(offloader_, update_weights{std::move(changed), gpu_->stamp()});
  if (done)
    gpu_->observe(done->stamp);
  const auto ended_meanwhile = !done && done.error().code == errc::transfer_aborted;
  may_have_.at(other) = done || faults_.struck_asker() || ended_meanwhile;
  may_have_.at(1 - other) = !done;
  return noted(done);
}

result<offload_state> supervised_life::state() {
  return ask<offload_state>(offloader_, query_offload{});
}

bool supervised_life::request() {
  return begin() &&
         std::ranges::all_of(what_.calls, [&](const auto& path) { return call(path); }) && end();
}

bool supervised_life::cancelled_request() {
  if (!begin())
    return false;
  for (const auto& path : what_.stages)
    if (!stage(path, true) || !stage(path, false))
      return false;
  if (!call(what_.calls.front()) ||
      !noted(ask<void>(offloader_, cancel_request{request_id{last_request_}})))
    return false;
  try {
    model_->call(what_.calls.back(), [](fake_module&) {});
    return noted(
        result<void>{tl::unexpected(failure{errc::internal, "a cancelled request went on"})});
  } catch (const ferry_error& e) {
    if (e.reason().code != errc::cancelled)
      return noted(result<void>{tl::unexpected(e.reason())});
  }
  return end();
}

// Also where giving back the lease before was lost.
bool supervised_life::leases_once() {
  const auto pinned = ask<host_memory_state>(memory_, query_host_memory{});
  if (!noted(pinned))
    return false;
  return pinned->leases.size() <= 1 ||
         noted(result<void>{tl::unexpected(failure{errc::internal, "a lease was not given back"})});
}

bool supervised_life::requests() {
  if (what_.updated.empty())
    return request() && request();
  return request() && cancelled_request() && update() && request();
}

bool supervised_life::live() {
  failure_.reset();
  if (ranks_)
    return start() && enable() && request() && request() && noted(state()) && disable() && stop();
  return start() && enable() && requests() && noted(state()) && disable() && enable() &&
         leases_once() && call(what_.calls.front()) && disable() && stop();
}

void supervised_life::end_what_runs(std::vector<std::string>& bad) {
  static_cast<void>(end());
  const auto after = state();
  if (!after || !after->enabled || after->first_failure || dead_)
    return;
  if (after->in_request) {
    bad.emplace_back("the request does not end");
    return;
  }
  if (over_ && after->tickets_in_flight != 0)
    bad.emplace_back("a ticket is in flight behind the request");
  for (const auto& [path, component] : after->components)
    if (over_ && component.on_device && std::ranges::find(what_.stages, path) != what_.stages.end())
      bad.push_back(path + " is on the device behind the request");
}

std::vector<std::string> supervised_life::recover() {
  std::vector<std::string> bad;
  const auto first = failure_;
  faults_.pass(10s);
  if (offloader_) {
    end_what_runs(bad);
    auto found = state();
    if (!dead_ && !ranks_ && found && found->enabled && !found->first_failure) {
      failure_.reset();
      if (!request() && failure_->code != errc::incomplete) {
        bad.push_back("the next request fails: " + ferry::describe(*failure_));
        static_cast<void>(end());
      }
    }
    for (int tries = 0; found && found->enabled && tries != 3; ++tries) {
      static_cast<void>(disable());
      found = state();
    }
    if (found && found->enabled)
      bad.emplace_back("the backend is not disabled");
    if (memory_) {
      const auto pinned = ask<host_memory_state>(memory_, query_host_memory{});
      // A lease that could not be given back goes with the next enable.
      const auto unheard = faults_.what().find("give_back_leases") != std::string::npos;
      if (pinned && !pinned->leases.empty() && !unheard)
        bad.push_back("a lease is left of " + pinned->leases.front().who);
    }
  }
  auto is_stopped = false;
  for (int tries = 0; !is_stopped && tries != 3; ++tries)
    is_stopped = stop();
  if (!is_stopped)
    bad.emplace_back("the children do not stop");
  if (longest_ > stop_deadline + (ranks_ ? ranks_->patience : nanoseconds{}))
    bad.push_back("an answer took " + std::to_string(longest_.count()) + " s");
  failure_ = first;
  return bad;
}

std::vector<std::string> supervised_life::leftovers() const {
  std::vector<std::string> bad;
  const auto left = gpu_->counters();
  for (const auto& [what, count] : {std::pair{"device bytes", left.device_bytes},
                                    {"pinned bytes", left.pinned_bytes},
                                    {"registered bytes", dead_ ? 0 : left.registered_bytes},
                                    {"streams", std::uint64_t{left.streams}},
                                    {"events", std::uint64_t{left.events}},
                                    {"races", std::uint64_t{dead_ ? 0 : gpu_->race_count()}},
                                    {"hooks", std::uint64_t{model_->hook_count()}},
                                    {"wrong calls", std::uint64_t{wrong_}}})
    if (count != 0)
      bad.push_back(std::to_string(count) + " " + what);
  const auto* const own = dynamic_cast<fake_model_offload*>(model_->custom_model_offload());
  if (own != nullptr && !own->calls.empty() && own->calls.back() != "disable")
    bad.emplace_back("the pipeline's own offload");
  if (lease_ != nullptr && !lease_->closed() && !failure_ && !dead_ && !faults_.struck())
    bad.emplace_back("an open lease");
  try {
    const auto all = everything(*model_->tree());
    if (!(may_have_[0] && all == versions_[0].all) && !(may_have_[1] && all == versions_[1].all))
      bad.emplace_back("other weights");
  } catch (const std::runtime_error&) {
    bad.emplace_back("parked weights");
  }
  return bad;
}

} // namespace ferry::test
