// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/cuda_device.hpp"
#include "nccl/rank_link.hpp"

#include <memory>
#include <thread>

namespace ferry::nccl {

/// The thread that watches a link, which its device keeps. Destroying it ends what is still under
/// way, and gives up after a time on a call into NCCL that does not return.
class link_watch final : public cuda_guest {
public:
  explicit link_watch(std::shared_ptr<rank_link> link);
  ~link_watch() override;

  [[nodiscard]] bool gone() const noexcept override { return link_->finished(); }

private:
  std::shared_ptr<rank_link> link_;
  std::thread thread_;
};

} // namespace ferry::nccl
