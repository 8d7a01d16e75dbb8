// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/gpu.hpp"

namespace ferry::test {
namespace {

[[maybe_unused]] const auto needs_a_gpu = skip_all_if(why_no_gpu);

} // namespace

} // namespace ferry::test
