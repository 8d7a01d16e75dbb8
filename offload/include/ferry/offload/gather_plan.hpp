// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <string>

namespace ferry {

/// Lets `ranks` ranks gather the blocks of the components that `config` says: gives those blocks
/// their manifests, and slots and inputs their sizes. One rank gathers nothing.
/// Fails with `invalid_config` if the chunks are too small.
[[nodiscard]] result<void> plan_gathers(transfer_plan& plan, const offload_config& config,
                                        std::size_t ranks);

/// Returns the SHA-256, in hexadecimal, of what all ranks must agree on before the first gather:
/// the manifests of all blocks, in order.
[[nodiscard]] std::string digest_of_gathers(const transfer_plan& plan);

} // namespace ferry
