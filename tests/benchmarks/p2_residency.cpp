// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P2: the step time with the residents that Ferry chooses under a budget of bytes, against a
// leading run and an even stride of the same bytes, all through the same runtime.

#include <ferry/offload/residency.hpp>

#include "fake_stack.hpp"
#include "goal.hpp"

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

namespace ferry::bench {

namespace {

constexpr std::size_t steps = 6;

struct model {
  const char* name;
  fake_stack stack;
  std::size_t budget = 0; ///< Of bytes, scaled.
};

/// 40 blocks of Wan that come in twice the time they compute, half of which may stay.
model equal_blocks() {
  const auto bytes = scaled(702.8e6);
  const double link = 25e9 / scale;
  const auto copy = static_cast<double>(bytes) / link;
  return {"40 equal blocks, T = 2 C, half resident",
          {.bytes = std::vector<std::size_t>(40, bytes),
           .link = link,
           .compute = nanoseconds{std::llround(copy / 2 * 1e9)}},
          20 * bytes};
}

/// FLUX with fp8 weights on a link of 25 GB/s.
model flux_fp8() {
  model made{"FLUX fp8, 2.4 GB resident",
             {.bytes = std::vector<std::size_t>(19, scaled(679.7e6 / 2)),
              .link = 25e9 / scale,
              .compute = std::chrono::microseconds{10'500}},
             scaled(2.4e9)};
  made.stack.bytes.insert(made.stack.bytes.end(), 38, scaled(283.2e6 / 2));
  return made;
}

double step_of(const model& streamed, const std::string& options) {
  return last_step(
      streamed.stack,
      R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{)" + options + "}}}", steps);
}

/// Returns the residents that times and sizes speak for, as an option.
std::string chosen(const model& streamed) {
  std::vector<block_cost> costs;
  for (const auto bytes : streamed.stack.bytes)
    costs.push_back({.compute = streamed.stack.compute,
                     .pieces = {{.copy = nanoseconds{std::llround(static_cast<double>(bytes) /
                                                                  streamed.stack.link * 1e9)},
                                 .gather = {}}}});
  const auto kept = choose_residents({.costs = costs, .bytes = streamed.stack.bytes},
                                     {.bytes = streamed.budget, .count = {}}, residency::spread);
  std::string numbers;
  for (std::size_t i = 0; i != kept.size(); ++i)
    if (kept[i])
      numbers += (numbers.empty() ? "" : ",") + std::to_string(i);
  return R"("resident_blocks":[)" + numbers + "]";
}

std::string budgeted(const model& streamed, const char* which) {
  return R"("resident_bytes":)" + std::to_string(streamed.budget) + R"(,"residency":")" + which +
         "\"";
}

/// Step times over that with everything resident.
struct comparison {
  double ours = 0;
  double by_size = 0; ///< Ours where the times of blocks are not known.
  double strided = 0;
  double leading = 0;
};

comparison compare(const model& streamed, outcome& into) {
  const auto resident = std::chrono::duration<double>(streamed.stack.compute).count() *
                        static_cast<double>(streamed.stack.bytes.size());
  const comparison found{.ours = step_of(streamed, chosen(streamed)) / resident,
                         .by_size = step_of(streamed, budgeted(streamed, "spread")) / resident,
                         .strided = step_of(streamed, budgeted(streamed, "strided")) / resident,
                         .leading = step_of(streamed, budgeted(streamed, "leading")) / resident};
  into.cases.push_back({{"case", streamed.name},
                        {"resident_s", resident},
                        {"ours/resident", found.ours},
                        {"ours_by_size/resident", found.by_size},
                        {"strided/resident", found.strided},
                        {"leading/resident", found.leading}});
  return found;
}

} // namespace

outcome measure_residency() {
  outcome result;
  const auto equal = compare(equal_blocks(), result);
  const auto flux = compare(flux_fp8(), result);
  result.met = equal.ours <= 1.02 && equal.leading / equal.ours >= 1.40 && flux.ours <= 1.01 &&
               flux.strided >= 1.03 && flux.leading >= 1.04 && equal.ours > 0.999 &&
               flux.ours > 0.999;
  result.text = "residency: (a) " + decimal(equal.ours) + " of all resident (target <= 1.020), a " +
                "leading run " + decimal(equal.leading / equal.ours) +
                " of that (target >= 1.400); (b) " + decimal(flux.ours) +
                " (target <= 1.010; by sizes alone " + decimal(flux.by_size) + "), strided " +
                decimal(flux.strided) + " (target >= 1.030), leading " + decimal(flux.leading) +
                " (target >= 1.040)";
  return result;
}

} // namespace ferry::bench
