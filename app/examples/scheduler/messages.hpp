// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/offloader.hpp>
#include <ferry/messages/type_ids.hpp>
#include <ferry/platform/device.hpp>

#include "models/diffusion_model.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ferry::example {

/// Asks for pictures of one of the pipelines.
struct generate {
  request_id id{};          ///< None that waits or runs has it.
  std::size_t pipeline = 0; ///< Index into the list that the scheduler was given.
  request asked;
};

/// Runs a request on a model whose weights a backend serves.
struct run_model {
  std::shared_ptr<diffusion_model> model;
  request asked;
  causal_stamp stamp;
};

struct model_ran {
  generated made;
  causal_stamp stamp;
};

/// The model thread: computes, and blocks while it does.
using model_actor = actor_interface<caf::result<model_ran>(run_model)>;

struct query_swaps {};

/// Serves requests for several pipelines, one after another, in the order they came in.
using scheduler_actor = actor_interface<
    // Answers when the request has run. Fails with `cancelled`, or with what the model, the runtime
    // or the device says; the next request is served all the same.
    caf::result<generated>(generate),
    // Answers at once. Ends the wait of a request; one that runs is left to end. Fails with
    // `not_found` for an id that does not wait.
    caf::result<void>(cancel_request),
    // Answers at once with how often a pipeline had to leave the device for another.
    caf::result<std::uint64_t>(query_swaps)>;

} // namespace ferry::example

FERRY_LOCAL_MESSAGE(ferry::generated)
FERRY_LOCAL_MESSAGE(ferry::example::generate)
FERRY_LOCAL_MESSAGE(ferry::example::run_model)
FERRY_LOCAL_MESSAGE(ferry::example::model_ran)
FERRY_LOCAL_MESSAGE(ferry::example::query_swaps)

CAF_BEGIN_TYPE_ID_BLOCK(scheduler_example, caf::first_custom_type_id + 200)

  CAF_ADD_TYPE_ID(scheduler_example, (ferry::generated))
  CAF_ADD_TYPE_ID(scheduler_example, (ferry::example::generate))
  CAF_ADD_TYPE_ID(scheduler_example, (ferry::example::run_model))
  CAF_ADD_TYPE_ID(scheduler_example, (ferry::example::model_ran))
  CAF_ADD_TYPE_ID(scheduler_example, (ferry::example::query_swaps))

CAF_END_TYPE_ID_BLOCK(scheduler_example)
