// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/pipeline.hpp>

#include <cstddef>
#include <memory>

namespace ferry::bench {

/// Returns a pipeline of one denoiser with `tensors` small parameters, 25 to a block.
[[nodiscard]] std::shared_ptr<pipeline> many_tensors(std::size_t tensors);

} // namespace ferry::bench
