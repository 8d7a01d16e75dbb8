// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include "models/diffusion_model.hpp"

#include <filesystem>
#include <memory>

namespace ferry {

/// Opens a pipeline directory as diffusers saves it, of any family that this build knows by the
/// class that `model_index.json` names. Copies no weights.
/// @returns `invalid_checkpoint` or `unsupported`; where several things are wrong, the first and
/// their number
[[nodiscard]] result<std::unique_ptr<diffusion_model>>
load_model(const std::filesystem::path& directory);

} // namespace ferry
