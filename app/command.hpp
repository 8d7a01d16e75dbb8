// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "exit_code.hpp"

namespace CLI {
class App;
}

namespace ferry {

// Each of these declares one command on `program`. If it was typed, parsing runs it and puts its
// outcome into `outcome`, which outlives `program`.

void add_checkpoint_command(CLI::App& program, exit_code& outcome);
void add_devices_command(CLI::App& program, exit_code& outcome);
void add_trace_command(CLI::App& program, exit_code& outcome);
#ifdef FERRY_WITH_RUN
void add_plan_command(CLI::App& program, exit_code& outcome);
void add_run_command(CLI::App& program, exit_code& outcome);
#endif

} // namespace ferry
