// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/block_marks.hpp"

#include <string_view>

namespace ferry {

bool block_marks::is_gate_mark(const operation_span& span) noexcept {
  if (span.kind != operation_kind::mark || span.tag.what == nullptr)
    return false;
  const std::string_view what = span.tag.what;
  return what == mark_acquire || what == mark_begin || what == mark_end;
}

std::optional<block_span> block_marks::add(const operation_span& mark) {
  auto& open = open_[mark.tag.block];
  const std::string_view what = mark.tag.what;
  if (what == mark_acquire) {
    open = {.asked = mark.end};
    return std::nullopt;
  }
  if (what == mark_begin) {
    open.begun = mark.end;
    open.ticket = mark.tag.ticket;
    open.track = static_cast<std::uint32_t>(mark.stream);
    return std::nullopt;
  }
  std::optional<block_span> use;
  if (open.begun && open.ticket == mark.tag.ticket)
    use = block_span{.track = open.track,
                     .block = mark.tag.block,
                     .ticket = mark.tag.ticket,
                     .asked = open.asked.value_or(*open.begun),
                     .begun = *open.begun,
                     .ended = mark.end};
  open = {};
  return use;
}

} // namespace ferry
