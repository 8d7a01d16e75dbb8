// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/resident_weights.hpp"

#include <ferry/platform/mapped_file.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include "subtree.hpp"

#include <new>
#include <numeric>

namespace ferry {
namespace {

packed_layout pack_all(const node_ptr& node) {
  std::vector<tensor_info> tensors;
  node_ids visited;
  visit_subtree("", node, visited, [&](const std::string&, const module_node& each) {
    for (auto& tensor : each.tensors())
      if (tensor.role != tensor_role::unregistered)
        tensors.push_back(std::move(tensor));
  });
  return pack(tensors);
}

} // namespace

resident_weights::resident_weights(pipeline& subject)
    : unit_(subject.make_unit("pipeline", pack_all(subject.root()))) {
  fill_host_memory();
}

resident_weights::resident_weights(pipeline& subject, device& target)
    : unit_(subject.make_unit("pipeline", pack_all(subject.root()))) {
  if (auto fits = subject.check_device(target.traits()); !fits)
    throw ferry_error{std::move(fits.error())};
  if (target.traits().computes_on_host)
    fill_host_memory();
  else
    fill_memory_of(target);
}

void resident_weights::fill_host_memory() {
  memory_.reset(static_cast<std::byte*>(
      ::operator new(align_up(unit_->layout().bytes), std::align_val_t{memory_alignment})));
  const auto originals = unit_->originals();
  const auto& storages = unit_->layout().storages;
  mapped_reader reader;
  for (std::size_t i = 0; i < storages.size(); ++i)
    reader.read(originals[i], {memory_.get() + storages[i].offset, storages[i].bytes},
                unit_->originals_conversion(i));
  unit_->park();
  unit_->bind(memory_.get());
}

void resident_weights::fill_memory_of(device& target) {
  on_device_.emplace(target, memory_kind::device, align_up(unit_->layout().bytes));
  const auto originals = unit_->originals();
  const auto& storages = unit_->layout().storages;
  stream copies{target, "residents"};
  for (std::size_t i = 0; i < storages.size(); ++i)
    copies.copy({.target = on_device_->bytes().subspan(storages[i].offset, storages[i].bytes),
                 .source = originals[i],
                 .from = unit_->originals_kind(i),
                 .tag = {.what = "resident"},
                 .convert = unit_->originals_conversion(i)});
  copies.synchronize({"resident_weights_wait_load"});
  unit_->park();
  unit_->bind(on_device_->bytes().data());
}

resident_weights::~resident_weights() {
  unit_->restore({});
}

void resident_weights::aligned_delete::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, std::align_val_t{memory_alignment});
}

std::size_t weight_bytes(const std::shared_ptr<const module_node>& node) {
  const auto layout = pack_all(node);
  return std::accumulate(
      layout.storages.begin(), layout.storages.end(), std::size_t{0},
      [](std::size_t sum, const packed_storage& each) { return sum + each.bytes; });
}

} // namespace ferry
