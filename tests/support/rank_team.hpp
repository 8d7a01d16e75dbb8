// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/host_communicator.hpp>
#include <ferry/platform/sim_communicator.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/fake_numa.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

/// Ranks that are threads of a test, each with a runtime.
namespace ferry::test {

inline constexpr auto rank_patience = std::chrono::seconds{20};

inline constexpr auto gathered = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"weight_transfer":"allgather"}}})";
inline constexpr auto all_gathered = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"weight_transfer":"allgather"},
                     "text_encoder":{"weight_transfer":"allgather"}}})";

inline constexpr auto resident_head = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"resident_layers":2},
                     "text_encoder":{"weight_transfer":"allgather"}}})";

inline constexpr std::size_t dit_blocks = 5;
inline constexpr std::size_t encoder_blocks = 3;

[[nodiscard]] inline std::shared_ptr<fake_pipeline> rank_model(unsigned char first = 10) {
  auto made = std::make_shared<fake_pipeline>(
      node("test.root")
          ->child("transformer", node("test.dit")->child("blocks", blocks(dit_blocks, 700, first)))
          ->child("text_encoder",
                  node("test.encoder")->child("block", blocks(encoder_blocks, 300, 100))));
  made->declare({.dits = {"transformer"}, .encoders = {"text_encoder"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}},
             .encoder_block_attrs = {{"text_encoder", {"block"}}},
             .encoder_dlo_weight_replication = {"text_encoder"},
             .resident_dit_paths = {"transformer"}});
  return made;
}

/// Returns whether every block has the bytes that `rank_model` gave it, and none is parked.
[[nodiscard]] inline bool has_own_bytes(fake_pipeline& pipeline, unsigned char first = 10) {
  const auto is = [&](const std::string& path, std::size_t fill) {
    const auto seen = pipeline.tree()->at(path)->own_tensors().at("weight")->bytes();
    return std::ranges::count(seen, std::byte(fill)) == std::ssize(seen);
  };
  for (std::size_t i = 0; i != dit_blocks; ++i)
    if (!is("transformer.blocks." + std::to_string(i), first + i))
      return false;
  for (std::size_t i = 0; i != encoder_blocks; ++i)
    if (!is("text_encoder.block." + std::to_string(i), 100 + i))
      return false;
  return true;
}

/// One rank: a device, a pipeline with the same weights as everybody's, and the runtime.
struct rank {
  rank(std::shared_ptr<device> target, rank_group ranks,
       std::shared_ptr<const numa_nodes> memory_nodes = nullptr,
       std::optional<std::uint64_t> pinned_memory = std::nullopt,
       std::chrono::milliseconds request_deadline = std::chrono::seconds{60})
      : gpu(std::move(target)), subject(gpu, {.pinned_memory = pinned_memory,
                                              .ranks = std::move(ranks),
                                              .memory_nodes = std::move(memory_nodes),
                                              .acquire_deadline = rank_patience,
                                              .request_deadline = request_deadline}) {}

  [[nodiscard]] bool run_block(const std::string& path, unsigned char fill) {
    auto right = false;
    pipeline->call(path, [&](fake_module& block) {
      const auto seen = block.own_tensors().at("weight")->bytes();
      right = std::ranges::count(seen, std::byte{fill}) == std::ssize(seen);
    });
    return right;
  }

  [[nodiscard]] bool run_encoder() {
    auto right = true;
    for (std::size_t i = 0; i != encoder_blocks; ++i)
      right = run_block("text_encoder.block." + std::to_string(i),
                        static_cast<unsigned char>(100 + i)) &&
              right;
    return right;
  }

  [[nodiscard]] bool run_step() {
    auto right = true;
    for (std::size_t i = 0; i != dit_blocks; ++i)
      right = run_block("transformer.blocks." + std::to_string(i),
                        static_cast<unsigned char>(10 + i)) &&
              right;
    return right;
  }

  [[nodiscard]] bool request(int steps) {
    auto right = begin(steps).has_value() && run_encoder();
    for (int step = 0; step != steps; ++step)
      right = run_step() && right;
    return subject.end_request() && right;
  }

  [[nodiscard]] result<request_id> begin(int steps) {
    return subject.begin_request({.steps = static_cast<std::uint32_t>(steps)});
  }

  std::shared_ptr<device> gpu;
  std::shared_ptr<fake_pipeline> pipeline = rank_model();
  runtime subject;
};

/// A device and its ends of a group.
struct rank_ends {
  std::shared_ptr<sim_device> gpu;
  rank_group group;
};

/// @param patience of gathers
[[nodiscard]] inline std::vector<rank_ends> sim_ranks(int size,
                                                      nanoseconds patience = rank_patience) {
  const auto machine = make_sim_machine(7);
  auto meetings = make_memory_rendezvous(size);
  std::vector<rank_ends> made;
  std::vector<sim_device*> raw;
  for (auto& meeting : meetings) {
    const auto name = "rank" + std::to_string(made.size());
    made.push_back(
        {std::make_shared<sim_device>(machine, name, sim_options{}),
         {.meeting = std::move(meeting), .gathers = nullptr, .patience = rank_patience}});
    raw.push_back(made.back().gpu.get());
  }
  auto ends = make_sim_communicators(raw, patience);
  for (std::size_t i = 0; i != made.size(); ++i)
    made[i].group.gathers = std::move(ends[i]);
  return made;
}

/// What ranks run on.
enum class kind : std::uint8_t { sim, host };

/// Ranks that are threads of this process.
class rank_team {
public:
  explicit rank_team(int size, kind what, sim_options sim = {},
                     const std::shared_ptr<const numa_nodes>& memory_nodes = nullptr,
                     gather_pipelining pipelining = gather_pipelining::overlapped,
                     nanoseconds patience = rank_patience) {
    auto meetings = make_memory_rendezvous(size);
    std::vector<std::unique_ptr<communicator>> ends;
    std::vector<std::shared_ptr<device>> devices;
    if (what == kind::sim) {
      machine_ = make_sim_machine(7);
      std::vector<sim_device*> raw;
      for (int i = 0; i != size; ++i) {
        sims_.push_back(std::make_shared<sim_device>(machine_, "rank" + std::to_string(i), sim));
        devices.push_back(sims_.back());
        raw.push_back(sims_.back().get());
      }
      ends = make_sim_communicators(raw, patience);
    } else {
      std::vector<host_device*> raw;
      for (int i = 0; i != size; ++i) {
        auto made =
            std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20});
        raw.push_back(made.get());
        devices.push_back(std::move(made));
      }
      ends = make_host_communicators(raw, patience);
    }
    for (std::size_t i = 0; i != devices.size(); ++i)
      ranks_.push_back(std::make_unique<rank>(devices[i],
                                              rank_group{.meeting = std::move(meetings[i]),
                                                         .gathers = std::move(ends[i]),
                                                         .patience = rank_patience,
                                                         .pipelining = pipelining},
                                              memory_nodes));
  }

  [[nodiscard]] rank& operator[](std::size_t i) { return *ranks_[i]; }
  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  /// Lets a rank go, as the end of its process would.
  void end(std::size_t i) { ranks_[i].reset(); }
  [[nodiscard]] sim_device& sim(std::size_t i) { return *sims_[i]; }
  [[nodiscard]] std::size_t races() const {
    std::size_t all = 0;
    for (const auto& each : sims_)
      all += each->race_count();
    return all;
  }

  /// Runs `act` for every rank, on a thread each. Returns whether it is true for all.
  bool all(const std::function<bool(rank&, std::size_t)>& act) {
    std::vector<std::thread> threads;
    std::atomic<std::size_t> right = 0;
    for (std::size_t i = 0; i != size(); ++i)
      threads.emplace_back([&, i] { right += act(*ranks_[i], i) ? 1 : 0; });
    for (auto& each : threads)
      each.join();
    return right == size();
  }

private:
  std::shared_ptr<sim_machine> machine_;
  std::vector<std::shared_ptr<sim_device>> sims_;
  std::vector<std::unique_ptr<rank>> ranks_;
};

[[nodiscard]] inline offload_config config_of(std::string_view text,
                                              std::size_t chunk = std::size_t{64} << 20) {
  auto made = compact(text);
  made.chunk_bytes = chunk;
  return made;
}

/// Returns the terms of a request of so many steps, with all that it runs.
[[nodiscard]] inline wave_terms terms_of(const rank& own, int steps) {
  const auto known = own.subject.state().value().blocks;
  const auto add = [&known](std::vector<block_id>& to, const std::string& prefix) {
    for (std::size_t i = 0; i != known.size(); ++i)
      if (known[i].starts_with(prefix))
        to.push_back(block_id{static_cast<std::uint32_t>(i)});
  };
  wave_terms terms{.steps = static_cast<std::uint32_t>(steps)};
  add(terms.blocks, "text_encoder.");
  for (int step = 0; step != steps; ++step)
    add(terms.blocks, "transformer.");
  return terms;
}

} // namespace ferry::test
