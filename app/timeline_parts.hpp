// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace ferry {

// The files of app/timeline, which the build puts into the program.

extern const char* const timeline_frame; ///< With places for the others: `{{style}}`.
extern const char* const timeline_style;
extern const char* const timeline_script;

} // namespace ferry
