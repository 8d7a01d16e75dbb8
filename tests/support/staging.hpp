// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/module_stager.hpp>
#include <ferry/offload/wait_edges.hpp>

#include "support/fake_pipeline.hpp"

#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

/// Groups of fake modules, staged by hand.
namespace ferry::test {

using contents = std::vector<std::byte>;

/// Returns the bytes of every tensor below `from`, as each is seen now. Throws if one is parked.
inline contents everything(const fake_module& from) {
  contents all;
  for (const auto& [name, value] : from.own_tensors()) {
    const auto seen = value->bytes();
    all.insert(all.end(), seen.begin(), seen.end());
  }
  for (const auto& [name, below] : from.own_children()) {
    const auto more = everything(*below);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

inline std::vector<tensor_info> tensors_below(const module_node& node) {
  auto all = node.tensors();
  for (const auto& [name, child] : node.children()) {
    auto more = tensors_below(*child);
    std::move(more.begin(), more.end(), std::back_inserter(all));
  }
  return all;
}

/// Makes one unit of all modules at `paths`.
inline std::unique_ptr<weight_unit> unit_of(fake_pipeline& model,
                                            const std::vector<std::string>& paths) {
  std::vector<tensor_info> tensors;
  for (const auto& path : paths) {
    auto more = tensors_below(*model.tree()->at(path));
    std::move(more.begin(), more.end(), std::back_inserter(tensors));
  }
  return model.make_unit(paths.front(), pack(tensors));
}

/// The two streams that touch a group.
struct staging_streams {
  explicit staging_streams(device& gpu) : copies(gpu, "stage"), compute(gpu, "compute") {}

  /// Runs `body` on the CPU as a model would run it on the device, with the group in use.
  template <class Body>
  auto use(module_stager& group, const Body& body) {
    compute.wait(group.ready(), compute_waits_stage);
    const std::array reads{group.region()};
    compute.compute({.reads = reads, .tag = {.what = "use"}});
    compute.settle();
    auto answer = body();
    compute.record(group.last_use());
    return answer;
  }

  void drain() {
    copies.synchronize(drain_before_restore);
    compute.synchronize(drain_compute_before_release);
  }

  stream copies;
  stream compute;
};

} // namespace ferry::test
