// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "launched_ranks.hpp"

#include <ferry/offload/member_differences.hpp>
#include <ferry/platform/host_communicator.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/nccl_communicator.hpp>
#include <ferry/platform/rendezvous.hpp>
#include <ferry/torch/tcp_store.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace ferry {

namespace {

constexpr nanoseconds patience_to_tell = std::chrono::seconds(10);

/// Returns "rank=1 of=3".
std::string in_words(const launched_rank& self) {
  return "rank=" + std::to_string(self.rank) + " of=" + std::to_string(self.size);
}

/// Compares what each rank says under a name; rank 0 counts as right.
/// @param other what a rank has that says something else: "another configuration"
result<void> compare(rendezvous& meeting, const std::string& name, const std::string& own,
                     const std::string& other) {
  const auto said = meeting.meet(name, as_contribution(own), patience_to_join);
  if (!said)
    return tl::unexpected(said.error());
  const auto first = as_text(said->front());
  for (std::size_t rank = 1; rank < said->size(); ++rank)
    if (const auto how = member_differences(as_text((*said)[rank]), first); !how.empty())
      return tl::unexpected(failure{.code = errc::invalid_config,
                                    .detail = "the ranks differ: rank " + std::to_string(rank) +
                                              " has " + other + ": " + how,
                                    .rank = static_cast<int>(rank)});
  return {};
}

} // namespace

result<std::optional<launched_rank>> this_launched_rank() {
  return read_launcher([](const char* name) { return std::getenv(name); });
}

result<std::optional<launched_rank>> rank_of_several() {
  auto launched = this_launched_rank();
  if (!launched || !*launched || (*launched)->size > 1)
    return launched;
  if (auto beyond = beyond_world(**launched))
    return tl::unexpected(std::move(*beyond));
  return std::nullopt;
}

launched_ranks::launched_ranks(nanoseconds patience)
    : patience_(patience), self_(rank_of_several()) {
  if (!self_ || !*self_)
    return;
  const auto& self = **self_;
  const auto to_reach = std::min(patience, patience_to_tell);
  log(log_level::info, "ferry.app",
      "reach ranks " + in_words(self) + " at=" + self.address + ":" + std::to_string(self.port));
  store_ = open_tcp_store(self, to_reach);
  if (!store_) {
    // Only who did not answer in time may answer yet.
    patience_ =
        store_.error().code == errc::deadline_exceeded ? patience - to_reach : nanoseconds::zero();
    return;
  }
  if (beyond_world(self))
    return;
  try {
    if (auto announced = announce_rank(**store_, self.rank, self.size); !announced) {
      store_ = tl::unexpected(std::move(announced.error()));
      patience_ = nanoseconds::zero();
      return;
    }
    log(log_level::info, "ferry.app", "announce rank " + in_words(self));
  } catch (const ferry_error& error) {
    store_ = tl::unexpected(error.reason());
    patience_ = nanoseconds::zero();
  }
}

launched_ranks::~launched_ranks() {
  if (!told_ || !(*store_)->hosted_here())
    return;
  try {
    await_leaving_ranks(**store_, (*self_)->size, patience_to_tell);
  } catch (const ferry_error&) {
    // Whoever could be told cannot reach the store either.
  }
}

result<std::unique_ptr<rendezvous>> launched_ranks::meet(const launched_rank& self) {
  if (store_)
    return join_rendezvous(std::move(*store_), self.rank, self.size, patience_);
  if (!store_ && patience_ <= nanoseconds::zero())
    return tl::unexpected(store_.error());
  return join_launched_ranks(self, patience_);
}

result<std::optional<rank_group>> launched_ranks::join(device& target, const offload_config& config,
                                                       const std::string& checkpoint,
                                                       const std::string& requests) {
  if (!self_)
    return tl::unexpected(self_.error());
  if (!*self_)
    return std::nullopt;
  const auto& self = **self_;
  log(log_level::info, "ferry.app", "wait for ranks " + in_words(self));
  auto meeting = meet(self);
  if (!meeting)
    return tl::unexpected(meeting.error());
  log(log_level::info, "ferry.app", "join ranks " + in_words(self));
  // Also those that offload nothing: they would be missed by those that do.
  if (auto same = compare(**meeting, "configuration", to_json(config), "another configuration");
      !same)
    return tl::unexpected(same.error());
  if (auto same = compare(**meeting, "checkpoint", checkpoint, "another checkpoint"); !same)
    return tl::unexpected(same.error());
  if (auto same = compare(**meeting, "requests", requests, "other requests"); !same)
    return tl::unexpected(same.error());
  const auto shared = std::shared_ptr<rendezvous>(std::move(*meeting));
  auto* const gpu = dynamic_cast<cuda_device*>(&target);
  auto gathers =
      gpu != nullptr
          ? open_nccl_communicator(*gpu, shared,
                                   {.patience = patience_to_gather, .to_join = patience_to_join})
          : join_process_communicator(dynamic_cast<host_device&>(target), *shared, "gathers",
                                      patience_to_gather, patience_to_join);
  if (!gathers)
    return tl::unexpected(gathers.error());
  return rank_group{
      .meeting = shared, .gathers = std::move(*gathers), .patience = patience_to_start};
}

failure launched_ranks::refuse(failure cause) {
  if (!self_ || !*self_)
    return cause;
  const auto& self = **self_;
  cause.rank = cause.rank.value_or(self.rank);
  log(log_level::info, "ferry.app", "tell ranks reason=" + describe(cause));
  if (!store_)
    return cause;
  try {
    auto first = refuse_to_join(**store_, self.rank, cause);
    told_ = true;
    return first;
  } catch (const ferry_error&) {
    return cause; // Whoever could be told cannot reach the store either.
  }
}

} // namespace ferry
