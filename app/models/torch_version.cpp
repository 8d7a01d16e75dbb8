// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/torch_version.hpp"

#include <torch/version.h>

namespace ferry {

std::string_view torch_version() noexcept {
  return TORCH_VERSION;
}

} // namespace ferry
