// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"

namespace ferry {

/// Writes to every page of fresh memory, on several threads where there is much of it, so that all
/// of it is there. Pages come from where the calling thread has its new pages from: threads inherit
/// that. @pre `fresh` is zero
void touch_pages(mutable_bytes fresh);

} // namespace ferry
