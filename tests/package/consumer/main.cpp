// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/rollback.hpp>
#include <ferry/platform/error.hpp>

int main() {
  ferry::rollback steps;
  steps.commit();
  return ferry::to_string(ferry::errc::internal) == "internal" ? 0 : 1;
}
