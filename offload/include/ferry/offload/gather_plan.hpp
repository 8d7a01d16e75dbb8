// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/loader_transforms.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/offload/transfer_plan.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace ferry {

/// Lets `ranks` ranks gather the blocks of the components that `config` says: gives those blocks
/// their manifests, and slots and inputs their sizes. One rank gathers nothing.
/// Fails with `invalid_config` if the chunks are too small, with `unsupported` if a block converts:
/// what one rank has of another's block lies as it is stored.
[[nodiscard]] result<void> plan_gathers(transfer_plan& plan, const offload_config& config,
                                        std::size_t ranks);

/// Which weights a rank has in one block that ranks gather, or in one tensor beside such blocks.
struct weight_identity {
  std::string path;
  std::string digest; ///< 64 bits in hexadecimal: of the form, and of a sample of the bytes.

  friend bool operator==(const weight_identity&, const weight_identity&) = default;
};

/// Returns the identities of the blocks that are gathered, in order, and behind them those of the
/// tensors that stay on the device of the same components: what all ranks must agree on before the
/// first gather. Equal checkpoints give equal ones, however their tensors are stored.
///
/// Reads at most 4 KiB of a tensor, from all over it, and nothing of what checkpoints leave out. A
/// tensor that is in `left` (null: none is) counts as the model computes with it, so that one is
/// rearranged as a whole. Touches nothing of the pipeline.
/// @throws ferry_error as `loader_transforms::find`
[[nodiscard]] std::vector<weight_identity>
identify_gathers(pipeline& subject, const transfer_plan& plan, const loader_transforms* left);

} // namespace ferry
