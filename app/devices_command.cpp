// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/open_device.hpp>

#include "command.hpp"

#include <CLI/CLI.hpp>

#include <iomanip>
#include <iostream>

namespace ferry {

void add_devices_command(CLI::App& program, exit_code& outcome) {
  auto* command = program.add_subcommand(
      "devices", "Lists the devices this build knows, which can be opened here, and why the "
                 "others cannot");
  command->callback([&outcome] {
    for (const auto& device : list_devices())
      std::cout << std::left << std::setw(8) << device.name << std::setw(13)
                << (device.available ? "available" : "unavailable") << device.description << '\n';
    outcome = exit_code::done;
  });
}

} // namespace ferry
