// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P4: the block period of ranks that gather their blocks, against the longest of compute, copy and
// gather, and against the same runtime when it copies and gathers back to back.

#include <ferry/offload/config_legacy.hpp>

#include "bare_stack.hpp"
#include "block_ends.hpp"
#include "goal.hpp"
#include "sim_ranks.hpp"
#include "support/fake_pipeline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace ferry::bench {

namespace {

// Sizes and bandwidths of real ones divided by this, so that times are those of the real ones.
constexpr std::size_t scale = 1024;
constexpr std::size_t block_bytes = 679'700'000 / scale; // A double block of FLUX, in bf16.
constexpr std::size_t blocks = 8;
constexpr std::size_t steps = 5;
constexpr std::size_t measured_uses = 2 * blocks; // The last ones: the pipe is full.
constexpr std::size_t chunk_bytes = (std::size_t{64} << 20) / scale; // The default.
constexpr double gather_latency = 30e-6;                             // Of every collective.

constexpr double most_over_bound = 1.03;
constexpr double least_of_speedup = 0.97;

/// Times of one block, in seconds. A gather's holds one latency.
struct mix {
  const char* name;
  std::size_t ranks = 2;
  double compute = 0;
  double copy = 0;
  double gather = 0;

  [[nodiscard]] double bound() const { return std::max({compute, copy, gather}); }

  /// Returns the bound if a block is gathered in chunks, each of which has a latency.
  [[nodiscard]] double bound_in_chunks() const {
    const double chunks = std::ceil(static_cast<double>(block_bytes) / chunk_bytes);
    return std::max({compute, copy, gather + (chunks - 1) * gather_latency});
  }
};

/// A block of FLUX on `ranks` H100 that are joined by NVLink.
mix flux(std::size_t ranks) {
  const auto all = static_cast<double>(block_bytes * scale);
  const auto n = static_cast<double>(ranks);
  return {"FLUX double block on H100", ranks, 2.5e-3, all / (n * 53e9),
          (n - 1) / n * all / 360e9 + gather_latency};
}

std::vector<mix> all_mixes() {
  std::vector<mix> all;
  for (const std::size_t ranks : {2U, 4U, 8U}) {
    all.push_back({"copy longest", ranks, 1e-3, 3e-3, 2e-3});
    all.push_back({"gather longest", ranks, 1e-3, 2e-3, 3e-3});
    all.push_back({"compute longest", ranks, 4e-3, 3e-3, 2e-3});
    all.push_back({"all equal", ranks, 3e-3, 3e-3, 3e-3});
    all.push_back({"video", ranks, 10e-3, 3e-3, 2e-3});
    all.push_back(flux(ranks));
  }
  return all;
}

sim_options model_of(const mix& times) {
  const auto n = static_cast<double>(times.ranks);
  sim_options options;
  options.h2d_bandwidth = block_bytes / (n * times.copy);
  options.gather_bandwidth = (n - 1) / n * block_bytes / (times.gather - gather_latency);
  options.gather_latency = nanoseconds{std::llround(gather_latency * 1e9)};
  options.compute = nanoseconds{std::llround(times.compute * 1e9)};
  return options;
}

std::shared_ptr<test::fake_pipeline> make_model() {
  auto made = std::make_shared<test::fake_pipeline>(test::node("root")->child(
      "transformer", test::node("dit")->child("blocks", test::blocks(blocks, block_bytes / 4))));
  made->declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
  return made;
}

offload_config gathered(std::size_t most_chunk_bytes) {
  auto config = checked(resolve_config(R"({"mode":"layer","components":["dit"],
      "layer_options":{"dit":{"weight_transfer":"allgather"}}})",
                                       {}))
                    .config;
  config.chunk_bytes = most_chunk_bytes;
  return config;
}

void run_steps(sim_rank own, std::size_t most_chunk_bytes) {
  const auto model = make_model();
  runtime through(own.gpu, {.ranks = std::move(own.group)});
  checked(through.start());
  checked(through.enable(model, gathered(most_chunk_bytes)));
  checked(through.begin_request({.steps = steps}));
  for (std::size_t use = 0; use < blocks * steps; ++use)
    model->call("transformer.blocks." + std::to_string(use % blocks), [](test::fake_module&) {});
  checked(through.end_request());
  checked(through.disable());
}

/// Returns the time from block to block of the slowest rank.
double block_period(const mix& times, gather_pipelining pipelining, std::size_t most_chunk_bytes) {
  auto ranks = make_sim_ranks(times.ranks, model_of(times));
  std::vector<block_ends> ends(ranks.size());
  std::vector<std::shared_ptr<sim_device>> devices;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].group.pipelining = pipelining;
    ranks[i].gpu->attach(ends[i]);
    devices.push_back(ranks[i].gpu);
  }
  on_every_rank(std::move(ranks),
                [&](std::size_t, sim_rank own) { run_steps(std::move(own), most_chunk_bytes); });
  double slowest = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    devices[i]->detach(ends[i]);
    const auto last = blocks * steps - 1;
    slowest = std::max(slowest, (ends[i][last] - ends[i][last - measured_uses]) / measured_uses);
  }
  return slowest;
}

struct periods {
  double chunked = 0;
  double whole = 0;

  [[nodiscard]] double best() const { return std::min(chunked, whole); }
};

periods measured(const mix& times, gather_pipelining pipelining) {
  return {block_period(times, pipelining, chunk_bytes),
          block_period(times, pipelining, std::size_t{1} << 30)};
}

} // namespace

outcome measure_pipeline() {
  outcome result;
  double worst_period = 0;
  double worst_chunked = 0;
  double worst_speedup = 1e9;
  std::string slowest;
  for (const auto& each : all_mixes()) {
    const auto ours = measured(each, gather_pipelining::overlapped);
    const auto theirs = measured(each, gather_pipelining::back_to_back);
    const double period = ours.best() / each.bound();
    const double chunked = ours.chunked / each.bound_in_chunks();
    const double speedup = theirs.best() / ours.best();
    const double of_possible = speedup / ((each.copy + each.gather) / each.bound());
    const auto label = std::string(each.name) + ", N=" + std::to_string(each.ranks);
    result.cases.push_back({{"case", label},
                            {"compute_s", each.compute},
                            {"copy_s", each.copy},
                            {"gather_s", each.gather},
                            {"whole_blocks_s", ours.whole},
                            {"chunks_s", ours.chunked},
                            {"back_to_back_whole_blocks_s", theirs.whole},
                            {"back_to_back_chunks_s", theirs.chunked},
                            {"period/bound", period},
                            {"chunked_period/bound_in_chunks", chunked},
                            {"speedup", speedup},
                            {"speedup/possible", of_possible}});
    if (period > worst_period) {
      worst_period = period;
      slowest = label;
    }
    worst_chunked = std::max(worst_chunked, chunked);
    worst_speedup = std::min(worst_speedup, of_possible);
  }
  result.met = std::max(worst_period, worst_chunked) <= most_over_bound &&
               worst_speedup >= least_of_speedup && worst_period > 0.999;
  result.text =
      "distributed pipeline: block period " + decimal(worst_period) +
      " of the longest of compute, copy and gather (target <= " + decimal(most_over_bound) +
      ", worst of " + std::to_string(result.cases.size()) + " cases: " + slowest +
      "; in chunks of 64 MiB " + decimal(worst_chunked) + " of that with their latencies), " +
      decimal(worst_speedup) +
      " of the possible speed-up over back to back (target >= " + decimal(least_of_speedup) + ")";
  return result;
}

} // namespace ferry::bench
