// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "nccl/nccl_api.hpp"

namespace ferry::nccl {

/// What became of a call: nothing, or why it failed. `ncclInProgress` is not a failure.
using outcome = result<void>;

/// Says why `call` failed: the call, NCCL's name for the result and its words for the last error.
/// @pre `said` is neither `ncclSuccess` nor `ncclInProgress`
[[nodiscard]] failure failed_call(const api& library, const char* call, ncclResult_t said,
                                  ncclComm_t comm = nullptr);

/// Judges what a call returned. Every call but those of `failed_call` itself goes through here.
[[nodiscard]] outcome check(const api& library, const char* call, ncclResult_t said,
                            ncclComm_t comm = nullptr);

/// As `check`, for calls that clean up: logs what failed, unless it did because the driver is
/// shutting down, which ends everything as well.
void check_while_closing(const api& library, const char* call, ncclResult_t said) noexcept;

} // namespace ferry::nccl
