// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/actors/trace_file.hpp"

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace ferry {
namespace {

/// With the reason that the system gave, if it did. `errno` was 0 before.
failure unwritten(const std::filesystem::path& path) {
  const auto why = errno == 0 ? "" : ": " + std::generic_category().message(errno);
  return {.code = errc::io_failure,
          .detail = "the trace '" + path.string() + "' could not be written" + why};
}

} // namespace

// Both clocks are read side by side, when opening has taken what it may take: what is between them
// sets this trace apart from those of other processes.
trace_file::trace_file(std::filesystem::path path, time kind)
    : path_(std::move(path)), real_(kind == time::real) {
  errno = 0;
  out_.open(path_, std::ios::binary);
  zero_ = std::chrono::steady_clock::now();
  const auto epoch = std::chrono::system_clock::now().time_since_epoch();
  writer_ = std::make_unique<trace_writer>(out_, real_ ? std::optional<nanoseconds>(epoch)
                                                       : std::nullopt);
  if (!out_)
    throw ferry_error{unwritten(path_)};
}

nanoseconds trace_file::offset_of(nanoseconds now) const noexcept {
  if (!real_)
    return nanoseconds::zero();
  return std::chrono::steady_clock::now() - zero_ - now;
}

result<void> trace_file::finish() {
  const std::lock_guard lock{mutex_};
  errno = 0;
  writer_->finish();
  out_.close();
  if (!out_)
    return tl::unexpected(unwritten(path_));
  return {};
}

} // namespace ferry
