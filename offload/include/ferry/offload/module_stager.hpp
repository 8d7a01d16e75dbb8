// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_master.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/offload/staging_buffers.hpp>
#include <ferry/offload/staging_memory.hpp>
#include <ferry/offload/unit_master.hpp>
#include <ferry/platform/event.hpp>
#include <ferry/platform/stream.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace ferry {

struct stager_options {
  std::string path = {}; ///< Names the group in messages.
  master_options master = {};
};

/// Brings one group of tensors to the device and takes it away, as a whole: modules of any number,
/// with every alias and tie among them. Weights are immutable, so nothing is ever copied back.
///
/// All loads and offloads go through one stream and return before it has run. Who computes with the
/// group makes its stream wait for `ready()` first and records `last_use()` afterwards, both while
/// the group is loaded. Used by one thread at a time. Before it is destroyed, nothing on the device
/// touches its memory or its master any more, and the tensors are restored or go with it.
class module_stager {
public:
  /// Makes the master and parks the tensors. If it throws, they are as they were. `memory` outlives
  /// the stager.
  /// @throws ferry_error `invalid_argument` for a group without bytes, `invalid_pipeline` for one
  /// with a meta tensor; device_error
  module_stager(device& owner, std::unique_ptr<weight_unit> unit, stager_options options,
                staging_memory& memory);
  module_stager(const module_stager&) = delete;
  module_stager& operator=(const module_stager&) = delete;
  ~module_stager();

  [[nodiscard]] const packed_layout& layout() const { return unit_->layout(); }
  [[nodiscard]] std::size_t bytes() const { return layout().bytes; }
  [[nodiscard]] std::size_t pinned_bytes() const noexcept;
  /// Returns the host copy; null once restored. It changes only when weights are replaced.
  [[nodiscard]] const host_master* master() const noexcept { return master_ ? &*master_ : nullptr; }
  [[nodiscard]] bool loaded() const noexcept { return !region_.empty(); }

  /// Returns the tensors and their master, to replace weights or before they are restored. @pre not
  /// restored, and away if weights are replaced
  [[nodiscard]] unit_store store() noexcept;

  /// Returns the group's bytes on the device, none while it is away.
  [[nodiscard]] const_bytes region() const noexcept { return region_; }

  /// Return the same two events for as long as the stager lives.
  [[nodiscard]] const event& ready() const noexcept { return ready_; }
  [[nodiscard]] event& last_use() noexcept { return last_use_; }

  /// From now on a master that is not pinned goes through `buffers`, which outlive the stager;
  /// null: it is copied from where it is.
  void stage_through(staging_buffers* buffers) noexcept { buffers_ = buffers; }
  /// Returns whether it does.
  [[nodiscard]] bool staged() const noexcept;

  /// Takes memory, enqueues the copies, records `ready()` and binds the tensors; waits for staging
  /// buffers to be free where the group goes through them. Loaded: does nothing. After any failure
  /// the group is away and has no memory. Out of memory: makes the staging memory release what it
  /// keeps, and tries once more.
  /// @throws device_error
  void load(stream& copies);

  /// Parks the tensors and gives the memory back, behind the last use. Away: does nothing.
  /// @throws device_error and then is still loaded
  void offload(stream& copies);

  /// Makes the tensors ordinary again and lets go of everything else; the stager is of no use
  /// afterwards. Keeps everything if it throws, and may be repeated.
  /// @pre nothing on the device touches its memory or its master any more
  void restore();

private:
  void bring(stream& copies);
  void copy_all(stream& copies);
  void drop_region() noexcept;

  staging_memory* memory_;
  std::unique_ptr<weight_unit> unit_;
  event ready_;
  event last_use_;
  std::optional<host_master> master_;
  mutable_bytes region_;
  staging_buffers* buffers_ = nullptr;
};

} // namespace ferry
