// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/communicator.hpp>

#include <memory>
#include <thread>

namespace ferry {

/// Fails a group that gathers with `cause` once `patience` is over, unless this has been destroyed
/// by then: a rank that stops does not wait for others that may never come. On a thread of its own,
/// because the actors that it would be a message to are the ones that wait.
class gather_limit {
public:
  gather_limit(std::shared_ptr<communicator> gathers, nanoseconds patience, failure cause);

private:
  std::jthread waits_;
};

} // namespace ferry
