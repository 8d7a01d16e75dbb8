// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/launcher.hpp"

#include <charconv>
#include <limits>
#include <string_view>

namespace ferry {
namespace {

failure refused(std::string detail) {
  return {.code = errc::invalid_config, .detail = std::move(detail)};
}

/// Reads the launcher's variables one by one and keeps the first that is wrong.
class variables {
public:
  explicit variables(const environment& variable) : variable_(&variable) {}

  [[nodiscard]] bool has(const char* name) const { return (*variable_)(name) != nullptr; }

  [[nodiscard]] std::string text(const char* name) {
    const auto* const value = (*variable_)(name);
    if (value != nullptr && *value != '\0')
      return value;
    fail(std::string(name) + " is not set, but RANK or WORLD_SIZE is; set RANK, WORLD_SIZE, "
                             "MASTER_ADDR and MASTER_PORT, as torchrun does, or none of them");
    return {};
  }

  [[nodiscard]] int number(const char* name, int least, int most) {
    const auto value = text(name);
    int read = 0;
    const auto* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, read);
    if (error == std::errc() && stop == end && read >= least && read <= most)
      return read;
    fail(std::string(name) + " is '" + value + "'; expected an integer from " +
         std::to_string(least) + " to " + std::to_string(most));
    return least;
  }

  [[nodiscard]] const std::optional<failure>& wrong() const noexcept { return wrong_; }

private:
  void fail(std::string detail) {
    if (!wrong_)
      wrong_ = refused(std::move(detail));
  }

  const environment* variable_;
  std::optional<failure> wrong_;
};

constexpr int most_ranks = 65536;

} // namespace

result<std::optional<launched_rank>> read_launcher(const environment& variable) {
  auto from = variables(variable);
  if (!from.has("RANK") && !from.has("WORLD_SIZE"))
    return std::nullopt;
  auto self = launched_rank{};
  self.size = from.number("WORLD_SIZE", 1, most_ranks);
  self.rank = from.number("RANK", 0, most_ranks);
  self.local_rank = from.has("LOCAL_RANK") ? from.number("LOCAL_RANK", 0, most_ranks) : self.rank;
  self.address = from.text("MASTER_ADDR");
  self.port = static_cast<std::uint16_t>(
      from.number("MASTER_PORT", 1, std::numeric_limits<std::uint16_t>::max()));
  if (from.has("TORCHELASTIC_USE_AGENT_STORE"))
    self.agent_hosts = from.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (from.has("TORCHELASTIC_RESTART_COUNT"))
    self.restart = from.number("TORCHELASTIC_RESTART_COUNT", 0, std::numeric_limits<int>::max());
  if (from.wrong())
    return tl::unexpected(*from.wrong());
  return self;
}

int gpu_of(const launched_rank& self, std::size_t gpus) noexcept {
  return gpus == 1 ? 0 : self.local_rank;
}

std::optional<failure> beyond_world(const launched_rank& self) {
  if (self.rank < self.size)
    return std::nullopt;
  auto reason = refused("RANK is " + std::to_string(self.rank) + "; expected 0 to " +
                        std::to_string(self.size - 1) + ", because WORLD_SIZE is " +
                        std::to_string(self.size));
  reason.rank = self.rank;
  return reason;
}

} // namespace ferry
