// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "gather_limit.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace ferry {

gather_limit::gather_limit(std::shared_ptr<communicator> gathers, nanoseconds patience,
                           failure cause)
    : waits_([gathers = std::move(gathers), patience,
              cause = std::move(cause)](const std::stop_token& over) {
        std::mutex alone;
        std::condition_variable_any woken;
        std::unique_lock lock{alone};
        const auto is_over = [&over] { return over.stop_requested(); };
        if (!woken.wait_for(lock, over, patience, is_over))
          gathers->abort(cause);
      }) {}

} // namespace ferry
