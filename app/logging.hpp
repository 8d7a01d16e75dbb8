// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace CLI {
class App;
}

namespace ferry {

/// Declares `--log-level` on `command`. Parsing puts the level in force.
void add_log_level_option(CLI::App& command);

} // namespace ferry
