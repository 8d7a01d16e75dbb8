// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <array>

namespace ferry {

/// The copy stream waits for the slot's last use: a fetch must not overwrite what a block still
/// reads.
inline constexpr wait_edge fetch_waits_last_use{"fetch_waits_last_use"};

/// The compute stream waits for a block's fetch: its weights must be there before it runs.
inline constexpr wait_edge compute_waits_fetch{"compute_waits_fetch"};

/// The compute stream waits for the resident units, which are loaded on the copy stream.
inline constexpr wait_edge compute_waits_resident_load{"compute_waits_resident_load"};

/// The stream on which a use of weights goes on or ends waits for the other streams that it was on:
/// the event recorded there at the end has to stand for all of them.
inline constexpr wait_edge use_joins_streams{"use_joins_streams"};

/// The host waits for the copy stream before masters or the arena go, and before weights in a
/// master are replaced: copies still read and write them.
inline constexpr wait_edge drain_before_restore{"drain_before_restore"};

/// The host waits for the compute stream before the arena goes: blocks and residents may still be
/// read there.
inline constexpr wait_edge drain_compute_before_release{"drain_compute_before_release"};

/// The staging stream waits for a group's last use: its bytes must not go while they are still
/// read.
inline constexpr wait_edge stage_waits_last_use{"stage_waits_last_use"};

/// The compute stream waits for a group's load: its weights must be there before they are read.
inline constexpr wait_edge compute_waits_stage{"compute_waits_stage"};

/// The copy stream waits for the gather that sent what a fetch is about to overwrite.
inline constexpr wait_edge fetch_waits_gather{"fetch_waits_gather"};

/// The communication stream waits for the copy of what this rank sends.
inline constexpr wait_edge gather_waits_fetch{"gather_waits_fetch"};

/// The communication stream waits for the slot's last use: a gather must not overwrite what a block
/// still reads.
inline constexpr wait_edge gather_waits_last_use{"gather_waits_last_use"};

/// The host waits for the communication stream before the arena goes: gathers still write there.
inline constexpr wait_edge drain_gathers_before_release{"drain_gathers_before_release"};

/// The host waits for the last copy from a staging buffer before it packs the next piece there.
inline constexpr wait_edge pack_waits_copy{"pack_waits_copy"};

/// The host waits for the compute stream before it decides on more slots: what blocks have taken is
/// known once they have run. Orders no memory.
inline constexpr wait_edge slots_wait_compute{"slots_wait_compute"};

/// Every ordering that gathering relies on beside the layerwise ones.
inline constexpr std::array gather_wait_edges{
    fetch_waits_gather,
    gather_waits_fetch,
    gather_waits_last_use,
    drain_gathers_before_release,
};

/// Every ordering that callers with streams of their own rely on beside those of the rest.
inline constexpr std::array caller_wait_edges{use_joins_streams};

/// Every ordering that staging buffers rely on beside those of the copies out of them.
inline constexpr std::array pack_wait_edges{pack_waits_copy};

/// Every ordering that groups rely on beside the layerwise ones. As `all_wait_edges`, for whoever
/// stages groups.
inline constexpr std::array group_wait_edges{
    stage_waits_last_use,
    compute_waits_stage,
};

/// Every ordering that the layerwise backend relies on. docs/memory-model.md says why of each, and
/// a test shows that nothing works without it.
inline constexpr std::array all_wait_edges{
    fetch_waits_last_use, compute_waits_fetch,          compute_waits_resident_load,
    drain_before_restore, drain_compute_before_release,
};

} // namespace ferry
