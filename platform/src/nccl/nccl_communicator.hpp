// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/communicator.hpp"
#include "nccl/rank_link.hpp"

#include <memory>

namespace ferry::nccl {

/// The end that a program has of a link. The link goes on without it until what is enqueued ended.
class nccl_communicator final : public communicator {
public:
  explicit nccl_communicator(std::shared_ptr<rank_link> link);
  ~nccl_communicator() override;

  [[nodiscard]] int rank() const noexcept override { return link_->rank(); }
  [[nodiscard]] int size() const noexcept override { return link_->size(); }
  void all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                  operation_tag tag) override;
  void abort(const failure& cause) noexcept override { link_->fail(cause); }
  [[nodiscard]] std::optional<failure> asynchronous_failure() const override {
    return link_->failed();
  }

private:
  std::shared_ptr<rank_link> link_;
};

} // namespace ferry::nccl
