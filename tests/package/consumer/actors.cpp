// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/crew.hpp>
#include <ferry/actors/runtime.hpp>
#include <ferry/messages/ask.hpp>
#include <ferry/platform/sim_device.hpp>

#include <memory>

int main() {
  ferry::runtime subject{std::make_shared<ferry::sim_device>(ferry::sim_options{}), {}};
  return subject.start() ? 0 : 1;
}
