// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/module_stager.hpp"

#include "ferry/offload/rollback.hpp"
#include "ferry/offload/unit_master.hpp"
#include "ferry/offload/wait_edges.hpp"

#include <utility>
#include <vector>

namespace ferry {

namespace {

void require_stageable(const packed_layout& layout, const std::string& path) {
  if (layout.meta_tensors != 0)
    throw ferry_error(
        {errc::invalid_pipeline, "'" + path + "' has " + std::to_string(layout.meta_tensors) +
                                     " tensors without memory; expected loaded weights"});
  if (layout.bytes == 0)
    throw ferry_error({errc::invalid_argument,
                       "'" + path + "' has no bytes of its own; expected something to stage"});
}

} // namespace

module_stager::module_stager(device& owner, std::unique_ptr<weight_unit> unit,
                             stager_options options, staging_memory& memory)
    : memory_(&memory), unit_(std::move(unit)), ready_(owner), last_use_(owner) {
  require_stageable(unit_->layout(), options.path);
  master_ = make_master(owner, *unit_, options.master);
  unit_->park();
  if (master_->replaces_originals())
    unit_->drop_originals();
  memory_->attach();
}

module_stager::~module_stager() {
  drop_region();
  memory_->detach();
}

std::size_t module_stager::pinned_bytes() const noexcept {
  return master_ ? master_->whole().size() : 0;
}

unit_store module_stager::store() noexcept {
  FERRY_ASSERT(master_.has_value());
  return {unit_.get(), &*master_};
}

void module_stager::load(stream& copies) {
  if (loaded())
    return;
  try {
    bring(copies);
  } catch (const device_error& failed) {
    if (failed.code() != errc::out_of_device_memory)
      throw;
    bring(copies);
  }
}

void module_stager::bring(stream& copies) {
  FERRY_ASSERT(master_.has_value());
  rollback undo;
  undo.on_failure([this] {
    drop_region();
    memory_->release_cache(true);
  });
  region_ = memory_->take(bytes());
  copy_all(copies);
  copies.record(ready_);
  undo.commit();
  unit_->bind(region_.data());
}

bool module_stager::staged() const noexcept {
  return buffers_ != nullptr && master_ && needs_staging(master_->segments());
}

void module_stager::copy_all(stream& copies) {
  constexpr operation_tag tag{.what = "stage"};
  if (!staged()) {
    for (const auto& segment : master_->segments())
      copies.copy(segment.copy_to(region_, tag));
    return;
  }
  for (std::size_t i = 0; i != buffers_->pieces_of(bytes()); ++i) {
    const auto piece = buffers_->piece(bytes(), i);
    buffers_->pack(i, master_->segments(), piece);
    buffers_->copy(i, piece, region_, copies, tag);
  }
}

void module_stager::offload(stream& copies) {
  if (!loaded())
    return;
  copies.wait(last_use_, stage_waits_last_use);
  rollback undo;
  undo.on_failure([this] { unit_->bind(region_.data()); });
  unit_->park();
  copies.discard(region_, {.what = "stage out"});
  undo.commit();
  drop_region();
  memory_->release_cache(false);
}

void module_stager::restore() {
  if (!master_)
    return;
  unit_->restore(master_->whole());
  drop_region();
  master_.reset();
}

void module_stager::drop_region() noexcept {
  if (!region_.empty())
    memory_->give_back(std::exchange(region_, {}));
}

} // namespace ferry
