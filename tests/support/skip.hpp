// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

namespace ferry::test {

/// Says that the running test cannot run here. It then returns, and CTest lists it as skipped.
void skip(std::string_view reason);

/// Skips all tests of a program unless the reason, asked when they are to run, is empty. Call it
/// before main. @return true
bool skip_all_if(std::string (*reason)());

} // namespace ferry::test
