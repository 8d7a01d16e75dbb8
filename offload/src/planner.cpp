// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/planner.hpp"

#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/gather_plan.hpp>
#include <ferry/offload/residency.hpp>
#include <ferry/offload/resident_weights.hpp>
#include <ferry/offload/resolve.hpp>
#include <ferry/offload/schedule_model.hpp>
#include <ferry/offload/slot_depth.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/quantity.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <tuple>
#include <utility>

namespace ferry {

namespace {

using json = nlohmann::ordered_json;

constexpr std::array chunk_sizes_mb{64, 16, 1024}; // The default first.
constexpr std::size_t jittery_uses = 4000; // Of blocks, to tell what jitter costs on average.

/// Returns a time that takes no longer than a day, so that sums of thousands stay in range: nobody
/// waits for a block that long, whatever else is worse.
nanoseconds bounded(double nanos) {
  constexpr double day = 24 * 3600e9;
  return nanoseconds{std::llround(std::min(nanos, day))};
}

nanoseconds over(double rate, std::size_t bytes) {
  return bounded(static_cast<double>(bytes) / rate * 1e9);
}

/// Draws factors of mean 1, lognormal. The same ones every time.
class jitter_factors {
public:
  explicit jitter_factors(double variation)
      : deviation_(std::sqrt(std::log(1 + variation * variation))) {}

  nanoseconds of(nanoseconds time) {
    constexpr auto range = static_cast<double>(std::numeric_limits<std::uint64_t>::max());
    const auto first = (static_cast<double>(random_()) + 1) / (range + 2);
    const auto second = static_cast<double>(random_()) / range;
    const auto normal = std::sqrt(-2 * std::log(first)) * std::cos(2 * std::numbers::pi * second);
    const auto factor = std::exp(deviation_ * normal - deviation_ * deviation_ / 2);
    return bounded(static_cast<double>(time.count()) * factor);
  }

private:
  double deviation_;
  std::mt19937_64 random_{1};
};

/// Returns what a run through `blocks` takes on average.
nanoseconds average_pass(const std::vector<block_cost>& blocks, const schedule_options& how,
                         double jitter) {
  if (jitter == 0 || blocks.empty())
    return steady_pass(blocks, how);
  jitter_factors factors(jitter);
  schedule_model model(how);
  const auto passes = jittery_uses / blocks.size() + 1;
  for (std::size_t pass = 0; pass != passes; ++pass)
    for (auto each : blocks) {
      for (auto& piece : each.pieces) {
        piece.copy = factors.of(piece.copy);
        if (piece.gather)
          piece.gather = factors.of(*piece.gather);
      }
      model.run(each);
    }
  return model.end() / passes;
}

std::string in_words(std::uint64_t bytes) {
  const auto exact = std::to_string(bytes) + " bytes";
  return bytes < 1024 ? exact : exact + " (" + size_text(bytes) + ")";
}

/// A configuration that may be worth its place.
struct candidate {
  json compact;
  std::size_t passes = 1; ///< To a fetch.
  std::int64_t chunk_mb = legacy_options{}.dlo_chunk_size_mb;
};

json layer(const std::vector<std::string>& components, std::size_t slots) {
  json made;
  made["mode"] = "layer";
  made["components"] = components;
  made["slots"] = slots;
  return made;
}

bool converts(const transfer_plan& plan) {
  const auto in_any = [](const auto& units) {
    return std::ranges::any_of(units, [](const auto& each) { return each.layout.converts; });
  };
  return in_any(plan.blocks) || in_any(plan.residents) || in_any(plan.groups);
}

/// One plan while it is made.
class planner {
public:
  planner(const pipeline& subject, const plan_question& asked) : subject_(subject), asked_(asked) {}

  result<std::vector<planned_configuration>> run() {
    if (auto found = find_stacks(); !found)
      return tl::unexpected(std::move(found.error()));
    if (auto known = check_computes(); !known)
      return tl::unexpected(std::move(known.error()));
    const auto own = asked_.passes_of_step();
    consider({.compact = {}, .passes = own});
    json module;
    module["mode"] = "module";
    module["components"] = json::array({"dit", "text_encoder"});
    consider({.compact = module, .passes = own});
    for (const auto passes : passes_to_try())
      for (const auto& components :
           std::vector<std::vector<std::string>>{{"dit"}, {"dit", "text_encoder"}})
        for (std::size_t slots = 1; slots <= most_useful_slots; ++slots) {
          consider_rank_local({.compact = layer(components, slots), .passes = passes}, slots);
          consider_gathers(components, slots, passes);
        }
    if (fitting_.empty())
      return tl::unexpected(least());
    rank();
    return std::move(fitting_);
  }

private:
  /// Returns what a fetch may serve: all passes of a step, which a run lets share unless it is told
  /// otherwise, then twice as many and so on, those of several requests, and one. Of equal
  /// configurations the first is best.
  [[nodiscard]] std::vector<std::size_t> passes_to_try() const {
    const auto own = asked_.passes_of_step();
    const auto most = asked_.most_passes_per_fetch.value_or(own);
    std::vector<std::size_t> all;
    for (auto passes = own; passes <= most; passes *= 2)
      all.push_back(passes);
    if (own > 1 || all.empty())
      all.push_back(1);
    return all;
  }

  /// Finds the blocks of each denoiser, whatever is offloaded. One that has a single block is not
  /// streamed: the legacy option keeps it on the device.
  result<void> find_stacks() {
    auto resolved = resolve_as({.compact = layer({"dit"}, 2)});
    if (!resolved) {
      legacy_options keeping;
      keeping.enable_distributed_layerwise_offload = true;
      auto kept = resolve_as({}, keeping);
      if (!kept)
        return tl::unexpected(std::move(resolved.error()));
      resolved = std::move(kept);
    }
    for (const auto& dit : resolved->second.dits)
      if (!dit.stacks.empty())
        stacks_.push_back(dit);
    if (stacks_.empty())
      return tl::unexpected(failure{errc::invalid_pipeline,
                                    std::string(subject_.type_name()) +
                                        " has no denoiser with blocks to stream; expected one"});
    return {};
  }

  using resolved_config = std::pair<offload_config, resolved_offload_plan>;

  [[nodiscard]] result<resolved_config> resolve_as(const candidate& which,
                                                   legacy_options beside = {}) const {
    beside.dlo_chunk_size_mb = which.chunk_mb;
    const auto text = which.compact.is_null() ? std::string("null") : which.compact.dump();
    auto config = resolve_config(text, beside);
    if (!config)
      return tl::unexpected(std::move(config.error()));
    auto plan = resolve(subject_, config->config);
    if (!plan)
      return tl::unexpected(
          failure{plan.error().front().code, std::move(plan.error().front().message)});
    return resolved_config{std::move(config->config), std::move(*plan)};
  }

  [[nodiscard]] std::size_t passes_of(const std::string& path) const {
    const auto found = asked_.passes.find(path);
    return found == asked_.passes.end() ? 1 : found->second;
  }

  [[nodiscard]] nanoseconds compute_of(std::string path) const {
    const auto& known = asked_.rates.computes;
    for (;;) {
      if (const auto found = known.find(path); found != known.end())
        return found->second;
      const auto dot = path.rfind('.');
      if (dot == std::string::npos)
        return asked_.rates.compute;
      path.resize(dot);
    }
  }

  /// Refuses times that would count for nothing.
  [[nodiscard]] result<void> check_computes() const {
    for (const auto& [path, time] : asked_.rates.computes) {
      const auto is_below = [&](const stack_block& block) {
        return block.path == path || block.path.starts_with(path + ".");
      };
      if (std::ranges::none_of(stacks_, [&](const resolved_component& dit) {
            return std::ranges::any_of(dit.stacks.front().blocks, is_below);
          }))
        return tl::unexpected(
            failure{errc::not_found, "the compute time of '" + path +
                                         "' is that of no block; expected a path such as " +
                                         stacks_.front().path + " or " +
                                         stacks_.front().stacks.front().blocks.front().path});
    }
    return {};
  }

  [[nodiscard]] nanoseconds copy_of(std::size_t bytes) const {
    const auto& rates = asked_.rates;
    const auto share = rates.host / static_cast<double>(asked_.ranks);
    return rates.latency + over(rates.host == 0 ? rates.link : std::min(rates.link, share), bytes);
  }

  [[nodiscard]] std::vector<piece_cost> pieces_of(const transfer_plan& plan,
                                                  std::size_t block) const {
    if (plan.gathers.empty() || !plan.gathers[block])
      return {{.copy = copy_of(plan.blocks[block].layout.source_bytes), .gather = {}}};
    std::vector<piece_cost> pieces;
    for (const auto& chunk : plan.gathers[block]->chunks)
      pieces.push_back({.copy = copy_of(chunk.local),
                        .gather = asked_.rates.gather_latency +
                                  over(asked_.rates.gather, (asked_.ranks - 1) * chunk.local)});
    return pieces;
  }

  /// Returns what the blocks of `stack` take, those that `plan` does not stream without a copy.
  [[nodiscard]] std::vector<block_cost> costs_of(const resolved_component& dit,
                                                 const transfer_plan& plan) const {
    std::map<object_id, std::size_t> streamed;
    for (std::size_t i = 0; i != plan.blocks.size(); ++i)
      streamed.emplace(plan.blocks[i].node, i);
    std::vector<block_cost> costs;
    for (const auto& block : dit.stacks.front().blocks) {
      auto& cost = costs.emplace_back(block_cost{.compute = compute_of(block.path), .pieces = {}});
      if (const auto found = streamed.find(block.node->identity()); found != streamed.end())
        cost.pieces = pieces_of(plan, found->second);
    }
    return costs;
  }

  /// Returns what all ranks pin.
  [[nodiscard]] std::uint64_t host_bytes(const transfer_plan& plan) const {
    if (!asked_.pins)
      return 0;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i != plan.blocks.size(); ++i)
      bytes += plan.gathers.empty() || !plan.gathers[i] ? plan.blocks[i].layout.source_bytes
                                                        : plan.gathers[i]->shard_bytes();
    for (const auto& each : plan.groups)
      bytes += each.layout.source_bytes;
    return bytes * asked_.ranks;
  }

  [[nodiscard]] result<transfer_plan> transfers_of(const resolved_config& resolved) const {
    auto plan = plan_transfers(resolved.second);
    if (resolved.first.strategy == offload_strategy::distributed_layer_wise)
      if (auto gathers = plan_gathers(plan, resolved.first, asked_.ranks); !gathers)
        return tl::unexpected(std::move(gathers.error()));
    return plan;
  }

  /// Returns what `which` comes to; nothing if the pipeline does not allow it.
  [[nodiscard]] std::optional<planned_configuration> predict(const candidate& which) {
    auto resolved = resolve_as(which);
    if (!resolved)
      return std::nullopt;
    const auto plan = transfers_of(*resolved);
    if (!plan) {
      gathers_no_converted_ |= plan.error().code == errc::unsupported;
      return std::nullopt;
    }
    if (!asked_.converts && converts(*plan))
      return std::nullopt;
    planned_configuration made{.compact = which.compact.is_null() ? "" : which.compact.dump(),
                               .config = std::move(resolved->first)};
    const auto streams = !plan->blocks.empty();
    const auto slots = made.config.slots.value_or(2);
    made.slots = streams ? slots : 0;
    if (made.config.strategy == offload_strategy::none) {
      made.device_bytes = weight_bytes(subject_.root());
    } else {
      made.device_bytes = plan->device_bytes(slots);
      made.host_bytes = host_bytes(*plan);
    }
    for (const auto& each : plan->groups)
      if (each.layout.bytes != 0)
        made.load += copy_of(each.layout.source_bytes);
    made.passes_per_fetch = which.passes;
    made.passes_of_step = asked_.passes_of_step();
    const schedule_options how{.slots = slots,
                               .passes = which.passes,
                               .pipelining = asked_.rates.gather_over_link
                                                 ? gather_pipelining::back_to_back
                                                 : gather_pipelining::overlapped};
    for (const auto& dit : stacks_) {
      const auto costs = costs_of(dit, *plan);
      const auto pass = average_pass(costs, how, asked_.rates.jitter);
      made.steps[dit.path] = pass * passes_of(dit.path) / which.passes;
      made.step += made.steps[dit.path] / stacks_.size();
      if (streams)
        made.resident_blocks =
            static_cast<std::size_t>(std::ranges::count(costs, true, &block_cost::resident));
    }
    return made;
  }

  void consider(const candidate& which) {
    if (auto made = predict(which))
      take(std::move(*made));
  }

  void take(planned_configuration made) {
    const auto fits_host = made.host_bytes <= asked_.host_memory.value_or(made.host_bytes);
    const auto fits_device = made.device_bytes <= asked_.device_memory.value_or(made.device_bytes);
    least_host_ = std::min(least_host_, made.host_bytes);
    if (fits_host)
      least_device_ = std::min(least_device_, made.device_bytes);
    if (fits_device)
      least_host_beside_ = std::min(least_host_beside_, made.host_bytes);
    if (fits_host && fits_device)
      fitting_.push_back(std::move(made));
  }

  void consider_rank_local(const candidate& none, std::size_t slots) {
    consider(none);
    if (!asked_.device_memory)
      return; // What has room for residents has room for all.
    const auto without = predict(none);
    if (!without || without->device_bytes >= *asked_.device_memory)
      return;
    const auto residents = residents_in(none, slots, *asked_.device_memory - without->device_bytes);
    if (residents.empty())
      return;
    auto with = none;
    with.compact["layer_options"]["dit"]["resident_blocks"] = residents;
    consider(with);
  }

  /// Chooses by the first denoiser: all of them have the same.
  [[nodiscard]] std::vector<std::size_t> residents_in(const candidate& which, std::size_t slots,
                                                      std::size_t room) const {
    std::vector<std::size_t> numbers;
    const auto resolved = resolve_as(which);
    const auto plan = resolved ? transfers_of(*resolved) : result<transfer_plan>{};
    if (!resolved || !plan)
      return numbers;
    const auto& dit = stacks_.front();
    const auto costs = costs_of(dit, *plan);
    std::vector<std::size_t> bytes;
    for (const auto& block : dit.stacks.front().blocks) {
      const auto found =
          std::ranges::find(plan->blocks, block.node->identity(), &planned_block::node);
      bytes.push_back(found == plan->blocks.end() ? 0 : found->layout.bytes);
    }
    const auto kept = choose_residents(
        {.costs = costs, .bytes = bytes, .how = {.slots = slots, .passes = which.passes}},
        {.bytes = room, .count = {}}, residency::spread);
    for (std::size_t i = 0; i != kept.size(); ++i)
      if (kept[i])
        numbers.push_back(i);
    return numbers;
  }

  void consider_gathers(const std::vector<std::string>& components, std::size_t slots,
                        std::size_t passes) {
    if (asked_.ranks == 1)
      return;
    std::vector<planned_configuration> others;
    for (const auto chunk : chunk_sizes_mb) {
      candidate which{.compact = layer(components, slots), .passes = passes, .chunk_mb = chunk};
      which.compact["layer_options"]["dit"]["weight_transfer"] = "allgather";
      auto made = predict(which);
      // Chunks that no block fills change nothing.
      const auto same = [&](const planned_configuration& other) {
        return std::tie(made->step, made->load, made->device_bytes, made->host_bytes) ==
               std::tie(other.step, other.load, other.device_bytes, other.host_bytes);
      };
      if (!made || std::ranges::any_of(others, same))
        continue;
      others.push_back(*made);
      take(std::move(*made));
    }
  }

  /// Returns the time of a request, in steps of a thousandth: what differs less is equal.
  [[nodiscard]] std::int64_t rank_of(const planned_configuration& which) const {
    const auto whole = static_cast<double>(which.step.count()) * static_cast<double>(asked_.steps) +
                       static_cast<double>(which.load.count());
    return std::llround(std::log(std::max(whole, 1.0)) * 1000);
  }

  void rank() {
    std::ranges::stable_sort(fitting_, {}, [this](const planned_configuration& each) {
      return std::tuple{rank_of(each), !each.compact.empty(), each.device_bytes, each.host_bytes};
    });
  }

  [[nodiscard]] failure least() const {
    constexpr auto none = std::numeric_limits<std::uint64_t>::max();
    const std::string left_out =
        gathers_no_converted_ ? "; ranks gather no weights that are converted" : "";
    if (least_device_ == none && least_host_ == none)
      return {errc::unsupported, "the device takes weights as they are stored, and those of every "
                                 "configuration are of another type than they compute in"};
    if (least_device_ == none)
      return {errc::out_of_host_memory, "host memory of " + in_words(*asked_.host_memory) +
                                            " is too small for any configuration; needs at least " +
                                            in_words(least_host_) + left_out};
    auto text = "device memory of " + in_words(*asked_.device_memory) +
                " is too small for any configuration";
    if (asked_.host_memory)
      text += " in host memory of " + in_words(*asked_.host_memory);
    text += "; needs at least " + in_words(least_device_);
    if (least_host_beside_ != none)
      text += ", or host memory of at least " + in_words(least_host_beside_);
    text += left_out;
    return {errc::out_of_device_memory, std::move(text)};
  }

  const pipeline& subject_;
  const plan_question& asked_;
  std::vector<resolved_component> stacks_; ///< The denoisers, with all their blocks.
  std::vector<planned_configuration> fitting_;
  bool gathers_no_converted_ = false; ///< Gathers were left out for that.
  std::uint64_t least_device_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t least_host_ = std::numeric_limits<std::uint64_t>::max();
  /// Of those that fit the device.
  std::uint64_t least_host_beside_ = std::numeric_limits<std::uint64_t>::max();
};

} // namespace

std::size_t plan_question::passes_of_step() const noexcept {
  std::size_t most = 1;
  for (const auto& [path, count] : passes)
    most = std::max(most, count);
  return most;
}

result<std::vector<planned_configuration>> plan_configurations(const pipeline& subject,
                                                               const plan_question& asked) {
  return planner(subject, asked).run();
}

} // namespace ferry
