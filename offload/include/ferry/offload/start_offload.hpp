// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/host_weight_plan.hpp>
#include <ferry/offload/startup_state.hpp>
#include <ferry/platform/error.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// What offloads one pipeline, as the startup sees it. Whoever destroys it has disabled it or means
/// to keep the pipeline offloaded.
class offload_backend {
public:
  offload_backend() = default;
  offload_backend(const offload_backend&) = delete;
  offload_backend& operator=(const offload_backend&) = delete;
  virtual ~offload_backend() = default;

  /// A failure leaves ordinary tensors with exact values and no hooks, unless `disable` is needed
  /// for that.
  [[nodiscard]] virtual result<void> enable(const std::shared_ptr<pipeline>& model) = 0;

  /// Makes the tensors ordinary again. Succeeds if nothing is enabled; may be repeated if it fails.
  [[nodiscard]] virtual result<void> disable() = 0;
};

/// Makes the backend for a configuration, with the loader's plan if there is one. Null: nothing is
/// to be offloaded, and nothing was touched.
using backend_builder =
    std::function<result<std::unique_ptr<offload_backend>>(std::optional<host_weight_plan> plan)>;

/// What there is to offload to.
enum class device_presence : std::uint8_t {
  present,
  unsupported,  ///< The platform has no offload.
  none,         ///< The platform has no device.
  undetectable, ///< Which device is meant could not be found out.
};

struct backend_choice {
  bool build = false;
  std::string warning = {}; ///< Why not, if that is not what was asked for.
};

/// Decides whether a backend is built. With a plan the loader has left weights out, so that going
/// on without the backend that binds them would be wrong: then everything that would end without
/// one, or with one that reads no plan, is refused as `unsupported`.
[[nodiscard]] result<backend_choice> choose_backend(const offload_config& config,
                                                    device_presence device, bool has_plan);

/// A pipeline and the backend that offloads it.
struct started_offload {
  std::shared_ptr<pipeline> model;
  std::unique_ptr<offload_backend> backend; ///< Null if nothing is offloaded.
};

/// Takes the loader's state off `subject`, builds a backend with its plan, and enables it.
///
/// A failed enable is disabled, and what the loader still owns is closed. If the state allows it,
/// the pipeline is then dropped, loaded afresh, and enabled once more with the state that comes
/// with it; a second failure is final, and so is `incomplete`: something could not be cleaned up.
/// What went wrong on the way is added to `warnings`, one line each. May block as long as loading
/// and enabling do.
[[nodiscard]] result<started_offload> start_offload(loaded_pipeline subject,
                                                    const backend_builder& build,
                                                    std::vector<std::string>& warnings);

} // namespace ferry
