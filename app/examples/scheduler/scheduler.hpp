// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/crew.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "messages.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace ferry::example {

/// A pipeline with the actors that offload it.
struct served_pipeline {
  std::string name;
  std::shared_ptr<diffusion_model> model;
  std::shared_ptr<torch_pipeline> subject;
  std::shared_ptr<crew> actors; ///< Started.
};

/// See `scheduler_actor`. The pipelines share the memory of one device: one that has no room is
/// enabled once another has been disabled. Never blocks.
class scheduler final : public scheduler_actor::base {
public:
  scheduler(caf::actor_config& config, std::vector<served_pipeline> pipelines,
            offload_config offloading, model_actor model_thread);

  behavior_type make_behavior() override;
  const char* name() const override { return "scheduler"; }
  void on_exit() override;

private:
  struct job {
    generate what;
    caf::typed_response_promise<generated> promise;
  };

  caf::result<void> cancel(request_id id);
  void next();
  void make_room();
  void enable(bool may_disable);
  void disable_another();
  void begin();
  void run(const causal_stamp& begun);
  void end(result<generated> outcome, const causal_stamp& ran);
  void finish(result<generated> outcome);

  [[nodiscard]] served_pipeline& current() { return pipelines_.at(jobs_.front().what.pipeline); }

  template <class Answer, class Handle, class Message, class Then>
  void ask(const Handle& whom, Message message, Then then);

  std::vector<served_pipeline> pipelines_;
  offload_config offloading_;
  model_actor model_thread_;
  std::deque<job> jobs_; ///< The first one runs if `busy_`.
  bool busy_ = false;
  std::vector<std::size_t> enabled_; ///< The one used longest ago comes first.
  std::uint64_t swaps_ = 0;
};

} // namespace ferry::example
