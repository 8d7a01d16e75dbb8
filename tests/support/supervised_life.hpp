// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/rank_group.hpp>
#include <ferry/actors/spawn.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/offload/host_lease.hpp>
#include <ferry/offload/wave_terms.hpp>
#include <ferry/offload/weight_update.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/fake_pipeline.hpp"
#include "support/message_faults.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry::test {

/// What a pipeline goes through under a runtime.
struct life_plan {
  std::function<std::shared_ptr<fake_pipeline>()> pipeline; ///< Makes the one whose life it is.
  offload_config config;
  std::vector<std::string> calls;  ///< Modules that a request calls, in order.
  std::vector<std::string> stages; ///< Components that a scheduler brings in and sends away.
  std::string updated; ///< A component that gets other weights in each life. None: nor is anything
                       ///< cancelled, the pipeline offloads itself.
  /// Of weights of the latest pipeline, for the first enable of a life; may be empty.
  std::function<std::shared_ptr<host_lease>()> lease = {};
};

/// The actors of a runtime in a world that moves message by message, with wires between all of
/// them, and a pipeline that they offload. Remembers the first thing that failed.
class supervised_life {
public:
  /// With `ranks` this is the life of one rank; it takes two requests and no other weights.
  supervised_life(std::shared_ptr<fake_pipeline> model, std::shared_ptr<sim_device> gpu,
                  life_plan what, std::optional<rank_group> ranks = std::nullopt);
  supervised_life(const supervised_life&) = delete;
  supervised_life& operator=(const supervised_life&) = delete;
  ~supervised_life();

  [[nodiscard]] message_faults& faults() noexcept { return faults_; }
  [[nodiscard]] const std::optional<failure>& first_failure() const noexcept { return failure_; }

  /// Starts, enables, runs three requests of which one is cancelled, with other weights for the
  /// last, disables, enables and disables once more, and stops, as far as nothing fails. Returns
  /// whether nothing did.
  bool live();

  /// Ends what a failed life has left: the request, the backend, the children; each is tried again
  /// as the contract allows. Before that, a runtime that goes on has to serve another request.
  /// Returns what does not come to an end, or what is not as it shall be.
  [[nodiscard]] std::vector<std::string> recover();

  /// Returns what is left behind, or not as it was, once everything is stopped.
  [[nodiscard]] std::vector<std::string> leftovers() const;

  /// Tells that the device has failed for good: no request works on it, and what it had begun it
  /// neither ends nor touches memory for.
  void end_device() noexcept { dead_ = true; }
  [[nodiscard]] bool is_over() const noexcept { return dead_; }

  /// Returns how many calls saw other bytes than the module's own.
  [[nodiscard]] std::size_t wrong_calls() const noexcept { return wrong_; }

  /// Returns the longest that anybody waited for an answer that was not lost itself.
  [[nodiscard]] std::chrono::seconds longest_wait() const noexcept { return longest_; }

private:
  using contents = std::vector<std::byte>;

  /// What the pipeline is made of: as it was at first, or with the other weights.
  struct weights {
    std::map<std::string, contents> called; ///< By path, of what a request calls.
    contents all;
    std::vector<weight_value> values; ///< Of the component that is updated.
  };

  /// With `updated`, as they would be with other weights.
  [[nodiscard]] weights weights_now(bool updated) const;

  [[nodiscard]] std::vector<start_step> steps();
  [[nodiscard]] std::vector<start_step> rank_steps();
  void introduce_retention();
  [[nodiscard]] result<wave_terms> wave();
  template <class Answer, class Handle, class Message>
  [[nodiscard]] result<Answer> ask(const Handle& whom, Message message);
  template <class T>
  [[nodiscard]] bool noted(const result<T>& outcome);

  [[nodiscard]] bool start();
  [[nodiscard]] bool enable();
  [[nodiscard]] bool disable();
  [[nodiscard]] bool stop();
  [[nodiscard]] bool request();
  [[nodiscard]] bool leases_once();
  [[nodiscard]] bool requests();
  [[nodiscard]] bool cancelled_request();
  [[nodiscard]] bool begin();
  [[nodiscard]] bool end();
  [[nodiscard]] bool call(const std::string& path);
  [[nodiscard]] bool stage(const std::string& path, bool in);
  [[nodiscard]] bool update();
  [[nodiscard]] result<offload_state> state();
  void end_what_runs(std::vector<std::string>& bad);

  std::shared_ptr<fake_pipeline> model_;
  std::shared_ptr<sim_device> gpu_;
  life_plan what_;
  std::optional<rank_group> ranks_;
  std::shared_ptr<host_lease> lease_; ///< Kept, so that only the runtime ends it.
  bool leased_ = false;               ///< The first enable has had it.
  std::array<weights, 2> versions_;
  std::array<bool, 2> may_have_{true, false}; ///< Both, if nobody heard how an update ended.
  actor_world world_;
  message_faults faults_{world_};
  supervisor_actor supervisor_;
  cache_retention_actor retention_;
  host_memory_actor memory_;
  host_packer_actor packer_;
  copy_stream_actor copies_;
  block_prefetcher_actor prefetcher_;
  component_stager_actor stager_;
  comm_stream_actor gathers_;
  rank_gate_actor gate_;
  offloader_actor offloader_;
  std::uint64_t last_request_ = 0;
  bool in_request_ = false;
  bool over_ = false; ///< A request is, and nothing was brought in since.
  std::optional<failure> failure_;
  std::size_t wrong_ = 0;
  bool dead_ = false;
  std::chrono::seconds longest_{0};
};

} // namespace ferry::test
