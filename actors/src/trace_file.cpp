// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/actors/trace_file.hpp"

#include <optional>
#include <string>
#include <utility>

namespace ferry {
namespace {

failure unwritten(const std::filesystem::path& path) {
  return {.code = errc::io_failure,
          .detail = "the trace '" + path.string() + "' could not be written"};
}

std::optional<nanoseconds> epoch_of(bool real) {
  if (!real)
    return std::nullopt;
  return std::chrono::system_clock::now().time_since_epoch();
}

} // namespace

trace_file::trace_file(std::filesystem::path path, time kind)
    : path_(std::move(path)), zero_(std::chrono::steady_clock::now()), real_(kind == time::real),
      out_(path_, std::ios::binary) {
  writer_ = std::make_unique<trace_writer>(out_, epoch_of(real_));
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
  writer_->finish();
  out_.close();
  if (!out_)
    return tl::unexpected(unwritten(path_));
  return {};
}

} // namespace ferry
