// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/spawn.hpp>
#include <ferry/messages/ask.hpp>
#include <ferry/messages/type_ids.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/byte_blocks.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::byte_blocks;

class two_workers final : public caf::actor_system_config {
public:
  two_workers() {
    add_types<caf::id_block::ferry_messages>(*this);
    ferry::add_error_category(*this);
    use_workers(*this, 2);
  }
};

/// The actors of one device, all of them on the workers of a system that others use too.
class crew {
public:
  crew(caf::actor_system& system, std::shared_ptr<sim_device> owner)
      : system_(&system), owner_(std::move(owner)) {
    supervisor_ = spawn_supervisor(
        system,
        {{"memory", [this]() -> child_actor { return memory_ = spawn_host_memory(*system_, {}); }},
         {"copies",
          [this]() -> child_actor {
            return copies_ = spawn_copy_stream_worker(*system_, owner_, supervisor_);
          }},
         {"prefetcher",
          [this]() -> child_actor {
            return prefetcher_ = spawn_block_prefetcher(*system_, owner_, copies_, supervisor_);
          }},
         {"stager",
          [this]() -> child_actor {
            return stager_ = spawn_component_stager(*system_, threading::pooled, owner_);
          }},
         {"offloader",
          [this]() -> child_actor {
            return offloader_ = spawn_offloader(*system_, threading::pooled, owner_, {}, memory_,
                                                copies_, prefetcher_, stager_, supervisor_);
          }}},
        5s);
    REQUIRE(ask<void>(system, supervisor_, 10s, start_children{}));
  }
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  ~crew() {
    auto done = ask<stopped>(*system_, supervisor_, 10s, stop_children{5s});
    if (done)
      for (const auto& each : done->stamps)
        owner_->observe(each);
    kill(supervisor_);
  }

  [[nodiscard]] std::shared_ptr<block_gate> enable(std::shared_ptr<const bare_weights> weights) {
    auto answer = ask<enabled>(*system_, offloader_, 10s,
                               enable_weights{std::move(weights), owner_->stamp()});
    REQUIRE(answer);
    owner_->observe(answer->stamp);
    return answer->gate;
  }

private:
  caf::actor_system* system_;
  std::shared_ptr<sim_device> owner_;
  supervisor_actor supervisor_;
  host_memory_actor memory_;
  copy_stream_actor copies_;
  block_prefetcher_actor prefetcher_;
  component_stager_actor stager_;
  offloader_actor offloader_;
};

/// Returns the names of the streams that work was done on.
std::set<std::string> streams_used(const sim_device& gpu) {
  std::set<std::string> names;
  for (const auto& entry : gpu.timeline())
    names.insert(entry.stream);
  return names;
}

TEST_CASE("workers that serve two devices in turns act for the right one each time",
          "[field_cases][B110]") {
  const byte_blocks blocks{{6}, 1};
  const byte_blocks others{{3, 2}, 1};
  const auto machine = make_sim_machine(7);
  const auto first = std::make_shared<sim_device>(machine, "sim:0", sim_options{});
  const auto second = std::make_shared<sim_device>(machine, "sim:1", sim_options{});
  two_workers config;
  {
    caf::actor_system system{config};
    crew here{system, first};
    crew there{system, second};
    const auto gate = here.enable(blocks.pinned(*first));
    const auto other_gate = there.enable(others.pinned(*second));

    for (std::size_t i = 0; i != 100; ++i) {
      CHECK(blocks.run(*gate, i % blocks.size()));
      CHECK(others.run(*other_gate, i % others.size()));
    }
  }

  for (const auto& gpu : {first, second}) {
    CHECK(gpu->race_count() == 0);
    CHECK(streams_used(*gpu) == std::set<std::string>{"compute", "copy"});
    CHECK(gpu->counters().device_bytes == 0);
    CHECK(gpu->counters().streams == 0);
  }
}

} // namespace
} // namespace ferry
