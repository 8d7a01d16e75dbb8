// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/host_communicator.hpp"
#include "host/host_communicator.hpp"
#include "process/connect_exchange.hpp"

#include <memory>
#include <string>
#include <utility>

namespace ferry {

result<std::unique_ptr<communicator>>
join_process_communicator(host_device& device, rendezvous& meeting, std::string_view name,
                          nanoseconds patience, nanoseconds to_join) {
  try {
    auto opened = connect_exchange(
        meeting, {.name = std::string(name), .patience = patience, .to_join = to_join});
    if (!opened)
      return tl::unexpected(opened.error());
    return std::make_unique<host_communicator>(device, std::move(opened->shared));
  } catch (const ferry_error& error) {
    // What rank 0 shares goes with rank 0.
    return tl::unexpected(refuse_together(meeting, std::string(name), error.reason(), to_join));
  }
}

} // namespace ferry
