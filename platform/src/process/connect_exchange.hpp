// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/rendezvous.hpp"
#include "host/exchange.hpp"
#include "process/process_identity.hpp"

#include <memory>
#include <string>

namespace ferry {

enum class machines { one, several };

struct exchange_options {
  std::string name;     ///< Tells several exchanges of the same ranks apart.
  nanoseconds patience; ///< For others in a collective.
  nanoseconds to_join;  ///< For others to connect.
  /// On several machines the ranks of each share memory, and know nothing of the others.
  machines spread = machines::one;
  process_identity self = this_process();
};

/// An exchange as one rank has it.
struct connected_exchange {
  std::shared_ptr<exchange> shared;
  bool all_here; ///< All ranks share the memory.
};

/// Connects ranks that are processes, or threads of them, through shared memory without a name.
/// @return as of `rendezvous::meet`; `unsupported` for a rank elsewhere that may not be
/// @throws ferry_error if the memory cannot be shared, or its maker has ended
[[nodiscard]] result<connected_exchange> connect_exchange(rendezvous& meeting,
                                                          const exchange_options& options);

/// Fails all ranks in place of joining them. Returns the first cause, the same on all ranks.
[[nodiscard]] failure refuse_together(rendezvous& meeting, const std::string& name, failure cause,
                                      nanoseconds patience);

} // namespace ferry
