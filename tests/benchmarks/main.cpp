// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/error.hpp>

#include "goal.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

namespace ferry::bench {

namespace {

constexpr std::array goals = {
    goal{"P1", measure_schedule},  goal{"P2", measure_residency},
    goal{"P3", measure_jitter},    goal{"P4", measure_pipeline},
    goal{"P5", measure_sharing},   goal{"P6", measure_control, try_control},
    goal{"P7", measure_run_ahead}, goal{"P8", measure_dynamic},
    goal{"P9", measure_memory},    goal{"P10", measure_exactness, try_exactness},
    goal{"P16", measure_cpu},      goal{"P17", measure_growth, try_growth},
    goal{"trace", measure_trace},
};

/// Goals that need hardware no CPU stands in for. Null in a build without kernels.
constexpr std::array gpu_goals = {
#ifdef FERRY_WITH_KERNELS
    goal{"P11", measure_link}, goal{"P12", measure_free},       goal{"P13", measure_balanced},
    goal{"P14", measure_gap},  goal{"P15", measure_cold_start},
#else
    goal{"P11", nullptr}, goal{"P12", nullptr}, goal{"P13", nullptr},
    goal{"P14", nullptr}, goal{"P15", nullptr},
#endif
};

/// Returns why a goal that needs a GPU cannot be measured, empty if it can be.
std::string no_gpu(const goal& wanted) {
  if (const auto gpu = open_cuda_device({.index = 0}); !gpu)
    return "no GPU: " + gpu.error().detail;
  return wanted.measure == nullptr ? "built without a CUDA compiler" : "";
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& each : goals)
    names.emplace_back(each.name);
  for (const auto& each : gpu_goals)
    names.emplace_back(each.name);
  return names;
}

std::string known_names() {
  std::string names;
  for (const auto& each : all_names())
    names += (names.empty() ? "" : ", ") + each;
  return names;
}

template <std::size_t N>
const goal* find_goal(const std::array<goal, N>& among, std::string_view name) {
  const auto found = std::ranges::find(among, name, &goal::name);
  return found == among.end() ? nullptr : &*found;
}

int run(int argc, char** argv) {
  CLI::App app{"Measures Ferry's performance goals, each against a baseline in the same run."};
  std::vector<std::string> wanted;
  std::string json_file;
  app.add_option("goals", wanted, "Names of goals (all: " + known_names() + ")")
      ->type_name("NAME...");
  bool tries = false;
  app.add_flag("--try", tries, "Run the least of goals that have it, and judge nothing");
  app.add_option("--json", json_file, "Write the same with every case")->type_name("FILE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "ferry_bench: %s\n", error.what());
    return 2;
  }
  if (wanted.empty())
    wanted = all_names();

  auto results = nlohmann::ordered_json::object();
  bool all_met = true;
  for (const auto& name : wanted) {
    const auto* found = find_goal(goals, name);
    if (const auto* on_gpu = find_goal(gpu_goals, name)) {
      if (const auto reason = no_gpu(*on_gpu); !reason.empty()) {
        std::printf("%s skipped: %s\n", name.c_str(), reason.c_str());
        results[name] = {{"skipped", reason}};
        continue;
      }
      found = on_gpu;
    }
    if (found == nullptr) {
      std::fprintf(stderr, "ferry_bench: there is no goal '%s'; known are %s\n", name.c_str(),
                   known_names().c_str());
      return 2;
    }
    if (tries && found->try_out == nullptr) {
      std::fprintf(stderr, "ferry_bench: %s has no --try\n", name.c_str());
      return 2;
    }
    const auto result = tries ? found->try_out() : found->measure();
    const auto* const verdict = tries ? "not judged" : result.met ? "met" : "MISSED";
    std::printf("%s %s %s\n", name.c_str(), result.text.c_str(), verdict);
    std::fflush(stdout);
    all_met = all_met && (tries || result.met);
    results[name] = {{"met", result.met}, {"text", result.text}, {"cases", result.cases}};
  }
  if (!json_file.empty()) {
    std::ofstream file(json_file);
    file << results.dump(2) << '\n';
    file.close();
    if (!file) {
      std::fprintf(stderr, "ferry_bench: '%s' could not be written\n", json_file.c_str());
      return 1;
    }
  }
  return all_met ? 0 : 1;
}

} // namespace

std::string decimal(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", value);
  return text.data();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace ferry::bench

int main(int argc, char** argv) {
  try {
    return ferry::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ferry_bench: %s\n", error.what());
    return 1;
  }
}
