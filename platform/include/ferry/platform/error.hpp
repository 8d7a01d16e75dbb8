// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <tl/expected.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ferry {

/// Every way an operation can fail, across the device, planning and actor layers.
enum class errc : std::uint8_t {
  invalid_argument = 1, ///< A value outside its documented range.
  invalid_type,         ///< A configuration value of the wrong JSON type.
  invalid_config,       ///< A configuration that contradicts itself or the grammar.
  invalid_pipeline,     ///< A pipeline that cannot be offloaded as configured.
  invalid_checkpoint,   ///< A checkpoint that is damaged, incomplete or of another shape.
  unsupported,          ///< Correct, but not to be had with this build or device.
  not_found,            ///< A name that nobody knows.
  out_of_device_memory, ///< The device or its arena is full.
  out_of_host_memory,   ///< Pinned or ordinary host memory is exhausted.
  device_failure,       ///< A call into the device runtime failed.
  device_poisoned,      ///< An earlier failure made the device unusable.
  stale_handle,         ///< A ticket, event or stream that is no longer current.
  slot_conflict,        ///< A slot is held by another use.
  not_resident,         ///< Weights were needed that are not on the device.
  transfer_aborted,     ///< The runtime is stopping or failed; nothing more is fetched.
  cancelled,            ///< The request was cancelled by its owner.
  already_enabled,      ///< A second owner, or a second enable.
  not_enabled,          ///< The operation needs an enabled backend.
  busy,                 ///< Refused while a request or a transition is running.
  deadline_exceeded,    ///< No answer within the time allowed.
  incomplete,           ///< A clean-up step failed; state was kept and may be retried.
  io_failure,           ///< The operating system refused a file operation.
  internal,             ///< An exception that nobody translated: a bug in Ferry or in a model.
};

/// Returns the stable, lower-case name of `code`, as it appears in logs and replies.
[[nodiscard]] std::string_view to_string(errc code) noexcept;

/// An outcome the caller is expected to handle: the reason, and what it was about.
struct failure {
  errc code = errc::internal;
  std::string detail;                     ///< One sentence for people.
  std::string block = {};                 ///< The block concerned, as a path; empty if none.
  std::optional<int> rank = std::nullopt; ///< The rank that failed first, where there are several.
  std::optional<int> vendor_code = std::nullopt; ///< What the device runtime returned.

  friend bool operator==(const failure&, const failure&) = default;
};

/// Returns `code: detail`, followed by block, rank and vendor code where known.
[[nodiscard]] std::string describe(const failure& f);

template <class T>
using result = tl::expected<T, failure>;

/// A `failure` on its way through code that does not expect it. Base of all Ferry exceptions.
class ferry_error : public std::runtime_error {
public:
  explicit ferry_error(failure reason);

  [[nodiscard]] const failure& reason() const noexcept { return reason_; }
  [[nodiscard]] errc code() const noexcept { return reason_.code; }

private:
  failure reason_;
};

/// A call into the device runtime failed. Nothing was enqueued.
class device_error : public ferry_error {
public:
  device_error(errc code, std::string_view operation, std::string_view reason,
               std::optional<int> vendor_code = std::nullopt);
};

/// An operation that ran before what was waited for has failed, with the reason of that operation.
/// Everything before has ended all the same: nothing uses its memory any more.
class operation_failed final : public ferry_error {
public:
  using ferry_error::ferry_error;
};

/// Aborts with the expression and its place. Active in every build: what it guards is a bug.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;

} // namespace ferry

#define FERRY_ASSERT(expression)                                                                   \
  (static_cast<bool>(expression) ? void(0)                                                         \
                                 : ::ferry::assertion_failed(#expression, __FILE__, __LINE__))
