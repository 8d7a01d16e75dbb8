// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>
#include <ferry/platform/key_value_store.hpp>
#include <ferry/platform/launcher.hpp>
#include <ferry/platform/rendezvous.hpp>

#include <memory>

namespace ferry {

/// Opens c10d's TCPStore at the address of the launcher: hosts it as rank 0, unless the launcher's
/// agent does, and connects otherwise. The others lose it with the host.
///
/// Opening and every later call take `patience` at most, also if whoever has the port does not
/// speak at all; the connection is then given up and a thread that waits for it is left behind.
/// What libtorch logs of it is silenced for the whole process from the first call on, but for what
/// is fatal: it writes a backtrace of each failure that is returned here. Whoever has set
/// TORCH_CPP_LOG_LEVEL sees it.
///
/// Who finds that the port belongs to something else says the same as rank 0, which cannot host
/// the store there: at once where that is a store too, which tells them; else after 5 s without a
/// word of a store. Something that has the port and lets nobody connect is not told from a rank 0
/// that has yet to start.
/// @return naming the address: `invalid_config` if it names no host, at once, or if rank 0 cannot
///         reach its own store there and it is no address of this machine; `deadline_exceeded` if
///         nobody answers there within `patience`; `io_failure` if something else has the port, or
///         the store is lost at once
[[nodiscard]] result<std::shared_ptr<key_value_store>> open_tcp_store(const launched_rank& self,
                                                                      nanoseconds patience);

/// Joins the ranks that a launcher started, through such a store. A rank beyond its world is
/// refused, and so are the others, in the same words.
/// @return as of `open_tcp_store`, `beyond_world` and `join_rendezvous`
[[nodiscard]] result<std::unique_ptr<rendezvous>> join_launched_ranks(const launched_rank& self,
                                                                      nanoseconds patience);

} // namespace ferry
