// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P16: on a CPU a model streams from its checkpoint at nearly the speed of a resident one that
// computes in the faster type, in a fraction of the memory. Each run is a process of its own, in
// turns: ours from the checkpoint, ours with everything in memory, and, where they are installed,
// what Python users have today (peers.py).

#include "app/run_program.hpp"
#include "goal.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace ferry::bench {

namespace {

using nlohmann::json;
using words = std::vector<std::string>;

constexpr int turns = 5;
constexpr auto steps = "4";
constexpr auto streamed = R"({"mode":"layer","components":["dit"]})";

/// Of a kind of run: one value a turn.
struct measured {
  std::vector<double> step_s; ///< The median of the steps behind the first.
  std::vector<double> first_step_end_s;
  std::vector<double> peak_bytes;
};

json parsed(const test::program_outcome& ran, const std::string& what) {
  if (ran.code != 0)
    throw std::runtime_error(what + " ended with code " + std::to_string(ran.code) + ": " +
                             ran.err);
  return json::parse(ran.out);
}

void add(measured& to, const json& said) {
  auto seconds = said.at("step_s").get<std::vector<double>>();
  seconds.erase(seconds.begin());
  to.step_s.push_back(median(seconds));
  to.first_step_end_s.push_back(said.at("first_step_end_s"));
  to.peak_bytes.push_back(said.at("peak_host_bytes"));
}

// Of the same length as in peers.py: 64 tokens of the image, 4 of the text.
json run_ours(const std::string& checkpoint, const std::string& computes, const words& more) {
  words line{"run",        checkpoint, "--device", "host",    "--compute-dtype", computes,
             "--steps",    steps,      "--size",   "128x128", "--frames",        "1",
             "--guidance", "1",        "--report", "-"};
  line.insert(line.end(), more.begin(), more.end());
  return parsed(test::run_program(line), "ferry run");
}

/// Returns the Python that has the peers, empty if there is none.
std::string python_of_peers() {
  const auto* told = std::getenv("FERRY_PEERS_PYTHON");
  const std::string python = told == nullptr ? FERRY_PEERS_PYTHON : told;
  return std::filesystem::exists(python) ? python : "";
}

/// The checkpoint: a Wan denoiser of 40 blocks, 1.36 GB of bf16.
std::string write_checkpoint(const std::filesystem::path& into) {
  const auto path = (into / "wan").string();
  const auto made = test::run_program({"checkpoint", "wan", path, "--blocks", "40", "--hidden",
                                       "1024", "--text-hidden", "512", "--no-vae"});
  if (made.code != 0)
    throw std::runtime_error("ferry checkpoint: " + made.err);
  return path;
}

double least(const std::map<std::string, measured>& of, std::vector<double> measured::* values) {
  auto best = std::numeric_limits<double>::infinity();
  for (const auto& [name, each] : of)
    best = std::min(best, median(each.*values));
  return best;
}

} // namespace

outcome measure_cpu() {
  const auto python = python_of_peers();
  const test::scratch_directory scratch;
  const auto checkpoint = write_checkpoint(scratch.path());
  measured ours;
  measured resident;
  measured chosen; // Of the type that is faster here, which is no part of the goal.
  std::map<std::string, measured> peers;
  for (int turn = 0; turn != turns; ++turn) {
    add(ours, run_ours(checkpoint, "f32", {"--config", streamed}));
    add(resident, run_ours(checkpoint, "f32", {}));
    add(chosen, run_ours(checkpoint, "auto", {"--config", streamed}));
    if (python.empty())
      continue;
    for (const std::string peer : {"resident", "group", "disk"})
      add(peers[peer],
          parsed(test::run({python, FERRY_PEERS_SCRIPT, peer, checkpoint + "/transformer", steps}),
                 "the peer " + peer));
  }

  outcome result;
  const auto note = [&](const std::string& name, const measured& of) {
    result.cases.push_back({{"case", name},
                            {"step_s", of.step_s},
                            {"first_step_end_s", of.first_step_end_s},
                            {"peak_bytes", of.peak_bytes}});
  };
  note("ferry from the checkpoint, f32", ours);
  note("ferry resident, f32", resident);
  note("ferry from the checkpoint, auto", chosen);
  for (const auto& [name, each] : peers)
    note("peer " + name + ", bf16", each);

  const auto to_resident = median(ours.step_s) / median(resident.step_s);
  result.met = to_resident <= 1.15;
  result.text = "a model on a CPU: a step takes " + decimal(to_resident) +
                " of a resident one (target <= 1.15)";
  if (python.empty()) {
    result.text += "; beside peers it was not judged, ./test.sh --peers installs them";
    return result;
  }
  const auto step = median(ours.step_s) / least(peers, &measured::step_s);
  const auto peak = median(ours.peak_bytes) / least(peers, &measured::peak_bytes);
  const auto in_auto = median(chosen.step_s) / least(peers, &measured::step_s);
  const auto first = median(ours.first_step_end_s) / least(peers, &measured::first_step_end_s);
  result.met = result.met && step <= 0.40 && peak <= 0.30 && first <= 0.5;
  result.text += " and " + decimal(step) + " of the best peer's (target <= 0.40), its peak is " +
                 decimal(peak) + " of the best (target <= 0.30), its first step has ended after " +
                 decimal(first) + " (target <= 0.5); a step of --compute-dtype auto takes " +
                 decimal(in_auto) + " of the best peer's";
  return result;
}

} // namespace ferry::bench
