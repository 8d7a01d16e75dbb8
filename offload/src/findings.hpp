// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/resolve.hpp>

#include <string>
#include <utility>
#include <vector>

namespace ferry {

/// What a resolution has found so far. The first sentence of a rule decides who it concerns: what
/// is wrong for an explicit selector is often only odd for legacy flags.
struct findings {
  bool strict = false; ///< An explicit selector is at work.
  std::vector<diagnostic> problems = {};
  std::vector<std::string> warnings = {};

  void reject(errc code, std::string subject, std::string message) {
    problems.push_back({code, std::move(subject), std::move(message)});
  }

  void reject(std::string subject, std::string message) {
    reject(errc::invalid_pipeline, std::move(subject), std::move(message));
  }

  void warn(std::string message) { warnings.push_back(std::move(message)); }

  /// Rejects under an explicit selector, warns under legacy flags; `instead` says what happens
  /// then.
  void object(std::string subject, std::string message, const std::string& instead) {
    if (strict) {
      reject(std::move(subject), std::move(message));
    } else {
      warn(std::move(message) + "; " + instead);
    }
  }
};

} // namespace ferry
