// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace ferry {

/// Numbers the streamed blocks of one enabled pipeline, from zero, in declaration order.
enum class block_id : std::uint32_t {};

/// Numbers the slots of one slot arena, from zero.
enum class slot_id : std::uint32_t {};

/// Numbers the groups of one enabled pipeline, from zero.
enum class group_id : std::uint32_t {};

/// Names a request among those of one runtime.
enum class request_id : std::uint64_t {};

/// Identity of a module object or tensor object or storage while it lives. Never dereferenced.
enum class object_id : std::uintptr_t {};

} // namespace ferry
