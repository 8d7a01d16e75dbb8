// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/communicator.hpp"
#include "ferry/platform/host_device.hpp"
#include "host/exchange.hpp"

#include <cstdint>
#include <memory>

namespace ferry {

/// Runs an exchange on the streams of a host device.
class host_communicator final : public communicator {
public:
  host_communicator(host_device& device, std::shared_ptr<exchange> shared);
  ~host_communicator() override;

  [[nodiscard]] int rank() const noexcept override { return exchange_->rank(); }
  [[nodiscard]] int size() const noexcept override { return exchange_->size(); }
  void all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                  operation_tag tag) override;
  void abort(const failure& cause) noexcept override;
  [[nodiscard]] std::optional<failure> asynchronous_failure() const override;

private:
  host_device* device_;
  std::shared_ptr<exchange> exchange_; ///< Also in what is queued, which may outlive this end.
  std::uint64_t next_ = 1;             ///< Counts collectives.
};

} // namespace ferry
