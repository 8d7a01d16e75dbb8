// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace ferry {

/// Lets libtorch compute on no more threads than this process may keep cores busy. By itself it
/// knows of `taskset` and not of a container's quota, and a team that is held up in the middle of
/// an operation waits for its last. `OMP_NUM_THREADS` says otherwise: then nothing happens.
/// Called before anything is computed.
void limit_compute_threads();

} // namespace ferry
