// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/platform/error.hpp>

#include "models/diffusion_model.hpp"

#include <filesystem>
#include <memory>
#include <optional>

namespace ferry {

/// Opens a pipeline directory as diffusers saves it, of any family that this build knows by the
/// class that `model_index.json` names. Copies no weights.
/// @param computes the type that weights have for the model; nothing: that of the checkpoint.
/// Others are converted on their way to a device, and the model runs once it is offloaded or made
/// resident
/// @returns `invalid_checkpoint` or `unsupported`; where several things are wrong, the first and
/// their number
[[nodiscard]] result<std::unique_ptr<diffusion_model>>
load_model(const std::filesystem::path& directory, std::optional<dtype> computes = std::nullopt);

} // namespace ferry
