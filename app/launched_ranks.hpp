// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/rank_group.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/key_value_store.hpp>
#include <ferry/platform/launcher.hpp>
#include <ferry/platform/rendezvous.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace ferry {

/// How long ranks that are processes wait for one another to join, where nothing else is said.
inline constexpr std::chrono::seconds patience_to_join{60};
/// A rank pins its parts before it votes, and reads them from the checkpoint for that.
inline constexpr std::chrono::minutes patience_to_start{10};
/// For a rank that lives and does not come; one that ends is missed at once.
inline constexpr std::chrono::minutes patience_to_gather{10};

/// Returns what a launcher told this process, if one has started it.
/// @return as of `read_launcher`
[[nodiscard]] result<std::optional<launched_rank>> this_launched_rank();

/// Returns the rank that this process is, where a launcher has started several.
/// @return as of `read_launcher`; as of `beyond_world` where there is no other
[[nodiscard]] result<std::optional<launched_rank>> rank_of_several();

/// This process as one of those that a launcher has started, if it has. Either joins the others or
/// tells them that it goes no further, once.
class launched_ranks {
public:
  /// Announces this process to the others, so that from here on they miss it at once when it ends.
  /// Waits up to 10 s of `patience` for their meeting place. What prevents it, `join` says.
  /// @param patience of `join`
  explicit launched_ranks(nanoseconds patience);
  launched_ranks(const launched_ranks&) = delete;
  launched_ranks& operator=(const launched_ranks&) = delete;

  /// Where the others have been told of a refusal and their meeting place is here, keeps it until
  /// they know, 10 s at most: say first what there is to say.
  ~launched_ranks();

  /// Joins the others, which waits for them, and compares what they are to do. Nothing, if there
  /// are no others.
  /// @param config compared first
  /// @param checkpoint what the checkpoints must have in common, a JSON object
  /// @param requests what the requests must have in common, a JSON object
  /// @pre `target` is what `open_ranks` opened
  /// @return as of `join_launched_ranks`; `invalid_config` on all ranks, naming the members, if one
  ///         has another configuration, checkpoint or request
  [[nodiscard]] result<std::optional<rank_group>> join(device& target, const offload_config& config,
                                                       const std::string& checkpoint,
                                                       const std::string& requests);

  /// Tells the others that this one goes no further. Returns the first cause, which all ranks have.
  [[nodiscard]] failure refuse(failure cause);

private:
  [[nodiscard]] result<std::unique_ptr<rendezvous>> meet(const launched_rank& self);

  nanoseconds patience_;
  result<std::optional<launched_rank>> self_;
  result<std::shared_ptr<key_value_store>> store_; ///< Or why it could not be reached.
  bool told_ = false;                              ///< The others, of a refusal.
};

} // namespace ferry
