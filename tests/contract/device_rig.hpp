// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/memory.hpp>

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::test {

/// Device memory that every subject of the device contract is opened with.
inline constexpr std::size_t contract_memory = std::size_t{64} << 20;

inline constexpr std::size_t contract_block = 4096;

inline constexpr wait_edge contract_edge{"contract"};

[[nodiscard]] memory_block on_device(device& owner);

/// Returns pinned memory whose every byte is `value`.
[[nodiscard]] memory_block pinned(device& owner, unsigned char value);

[[nodiscard]] bool every_byte_is(const_bytes bytes, unsigned char value);

/// Returns whether every byte of pinned memory is `value`.
[[nodiscard]] bool holds(device& owner, const memory_block& block, unsigned char value);

[[nodiscard]] copy_operation upload(const memory_block& target, const memory_block& source);
[[nodiscard]] copy_operation download(const memory_block& target, const memory_block& source);
[[nodiscard]] copy_operation within(const memory_block& target, const memory_block& source);

/// Remembers what it was told. Read it once the device is idle.
class recording_observer final : public operation_observer {
public:
  void on_operation(const operation_span& span) override;
  void on_stream(stream_id stream, std::string_view name) override;

  [[nodiscard]] std::vector<operation_span> spans() const;
  [[nodiscard]] std::vector<std::string> streams() const;
  [[nodiscard]] std::vector<operation_span> spans_of(operation_kind kind) const;

private:
  mutable std::mutex mutex_;
  std::vector<operation_span> spans_;
  std::vector<std::string> streams_;
};

/// Counts the threads of this process.
[[nodiscard]] std::size_t thread_count();

} // namespace ferry::test
