// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "support/catch.hpp"

#include <torch/nn/module.h>

// libtorch brings a CHECK of its own, which aborts; Catch's is the one that tests mean.
#undef CHECK
#define CHECK(...)                                                                                 \
  INTERNAL_CATCH_TEST("CHECK", Catch::ResultDisposition::ContinueOnFailure, __VA_ARGS__)
