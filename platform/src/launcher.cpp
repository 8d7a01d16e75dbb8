// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/launcher.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry {
namespace {

/// Under which names a launcher other than torchrun tells a process its place. Null: not told.
struct launcher_names {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* machines; ///< How many there are; stands in for `local_size`.
  const char* job;      ///< What tells jobs of one machine apart.
  const char* step;     ///< Likewise; without it nothing else counts.
};

constexpr std::array other_launchers{
    launcher_names{.rank = "SLURM_PROCID",
                   .size = "SLURM_STEP_NUM_TASKS",
                   .local_rank = "SLURM_LOCALID",
                   .local_size = nullptr,
                   .machines = "SLURM_STEP_NUM_NODES",
                   .job = "SLURM_JOB_ID",
                   .step = "SLURM_STEP_ID"},
    launcher_names{.rank = "OMPI_COMM_WORLD_RANK",
                   .size = "OMPI_COMM_WORLD_SIZE",
                   .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                   .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
                   .machines = nullptr,
                   .job = "PMIX_NAMESPACE",
                   .step = nullptr},
    launcher_names{.rank = "PMI_RANK",
                   .size = "PMI_SIZE",
                   .local_rank = "MPI_LOCALRANKID",
                   .local_size = "MPI_LOCALNRANKS",
                   .machines = nullptr,
                   .job = nullptr,
                   .step = nullptr},
};

/// The port of a launcher that does not number its jobs; torchrun's.
constexpr std::uint16_t usual_port = 29500;
// Below the ports that systems hand out by themselves.
constexpr std::uint32_t first_job_port = 20000;
constexpr std::uint32_t job_ports = 9000;

/// The place that a launcher gives this process.
struct told_place {
  const launcher_names* by;
  int rank;
  int size;
};

failure refused(std::string detail) {
  return {.code = errc::invalid_config, .detail = std::move(detail)};
}

/// Returns "SLURM_PROCID of SLURM_STEP_NUM_TASKS is 1 of 4".
std::string in_words(const told_place& told) {
  return std::string(told.by->rank) + " of " + told.by->size + " is " + std::to_string(told.rank) +
         " of " + std::to_string(told.size);
}

/// Reads variables one by one and keeps the first that is wrong.
class variables {
public:
  explicit variables(const environment& variable) : variable_(&variable) {}

  /// Whether a variable is set, if only to nothing.
  [[nodiscard]] bool has(const char* name) const {
    return name != nullptr && (*variable_)(name) != nullptr;
  }

  [[nodiscard]] std::string text(const char* name) {
    const auto* const value = (*variable_)(name);
    if (value != nullptr && *value != '\0')
      return value;
    const auto* const others = !has("RANK")         ? "WORLD_SIZE is"
                               : !has("WORLD_SIZE") ? "RANK is"
                                                    : "RANK and WORLD_SIZE are";
    fail(std::string(name) +
         (value != nullptr ? " is empty" : std::string(" is not set, but ") + others) +
         "; set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun does, or none of them");
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

  void fail(std::string detail) {
    if (!wrong_)
      wrong_ = refused(std::move(detail));
  }

private:
  const environment* variable_;
  std::optional<failure> wrong_;
};

/// Returns what launchers other than torchrun say, those that have started several processes.
std::vector<told_place> places_told(variables& from) {
  std::vector<told_place> all;
  for (const auto& by : other_launchers) {
    if (!from.has(by.size) || !from.has(by.rank) || (by.step != nullptr && !from.has(by.step)))
      continue;
    const auto size = from.number(by.size, 1, most_launched_ranks);
    if (size > 1)
      all.push_back({&by, from.number(by.rank, 0, size - 1), size});
  }
  return all;
}

/// Whether a launcher may start the processes of another one, which then tells what counts.
bool may_be_outer(const told_place& told) {
  return told.by == &other_launchers.front();
}

/// Returns the place that all agree on, whether they are launchers or but one of `RANK` and
/// `WORLD_SIZE`. Launchers of MPI may start their helpers through srun, one a machine, whose
/// variables the ranks inherit: there the inner one counts.
const told_place* agreed_place(variables& from, std::vector<told_place>& told) {
  if (told.size() > 1 && may_be_outer(told.front()))
    told.erase(told.begin());
  if (told.empty())
    return nullptr;
  const auto& first = told.front();
  const auto advice = "; set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT to what counts";
  for (const auto& other : told)
    if (other.rank != first.rank || other.size != first.size)
      from.fail(in_words(first) + " and " + in_words(other) + advice);
  for (const auto& [name, expected] :
       std::array{std::pair("RANK", first.rank), std::pair("WORLD_SIZE", first.size)})
    if (from.has(name))
      if (const auto own = from.number(name, 0, most_launched_ranks); own != expected)
        from.fail(std::string(name) + " is " + std::to_string(own) + " and " + in_words(first) +
                  advice);
  return &first;
}

bool all_on_this_machine(variables& from, const told_place& told) {
  if (from.has(told.by->machines))
    return from.text(told.by->machines) == "1";
  return from.has(told.by->local_size) &&
         from.text(told.by->local_size) == std::to_string(told.size);
}

std::string job_of(variables& from, const launcher_names& by) {
  if (!from.has(by.job))
    return {};
  return from.text(by.job) + "." + (by.step != nullptr ? from.text(by.step) : "");
}

/// Returns the same port in all processes of a job, and hardly ever that of another job.
std::uint16_t port_of(const std::string& job) {
  if (job.empty())
    return usual_port;
  std::uint32_t hash = 2166136261; // FNV-1a: the same in every process, whatever built it.
  for (const auto each : job)
    hash = (hash ^ static_cast<unsigned char>(each)) * 16777619;
  return static_cast<std::uint16_t>(first_job_port + hash % job_ports);
}

std::string address_of(variables& from, const told_place& told) {
  if (from.has("MASTER_ADDR"))
    return from.text("MASTER_ADDR");
  if (!all_on_this_machine(from, told))
    from.fail(
        "MASTER_ADDR is not set, " + in_words(told) +
        ", and nothing says that all are on this machine; set MASTER_ADDR to the address of rank "
        "0's machine");
  return "127.0.0.1";
}

std::uint16_t port_in(variables& from) {
  return static_cast<std::uint16_t>(
      from.number("MASTER_PORT", 1, std::numeric_limits<std::uint16_t>::max()));
}

launched_rank read_torchrun(variables& from) {
  auto self = launched_rank{};
  self.size = from.number("WORLD_SIZE", 1, most_launched_ranks);
  self.rank = from.number("RANK", 0, most_launched_ranks - 1);
  self.local_rank = self.rank;
  self.address = from.text("MASTER_ADDR");
  self.port = port_in(from);
  if (from.has("TORCHELASTIC_USE_AGENT_STORE"))
    self.agent_hosts = from.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (from.has("TORCHELASTIC_RUN_ID"))
    self.job = from.text("TORCHELASTIC_RUN_ID");
  if (from.has("TORCHELASTIC_RESTART_COUNT"))
    self.restart = from.number("TORCHELASTIC_RESTART_COUNT", 0, std::numeric_limits<int>::max());
  return self;
}

launched_rank read_other(variables& from, const told_place& told) {
  auto self = launched_rank{.rank = told.rank, .size = told.size, .local_rank = told.rank};
  if (from.has(told.by->local_rank))
    self.local_rank = from.number(told.by->local_rank, 0, most_launched_ranks - 1);
  self.address = address_of(from, told);
  self.job = job_of(from, *told.by);
  self.port = from.has("MASTER_PORT") ? port_in(from) : port_of(self.job);
  return self;
}

} // namespace

result<std::optional<launched_rank>> read_launcher(const environment& variable) {
  auto from = variables(variable);
  // Whoever has set both knows better than a launcher around it.
  const auto is_told = from.has("RANK") && from.has("WORLD_SIZE");
  auto told = is_told ? std::vector<told_place>() : places_told(from);
  const auto* const place = agreed_place(from, told);
  auto self = std::optional<launched_rank>();
  if (place != nullptr)
    self = read_other(from, *place);
  else if (from.has("RANK") || from.has("WORLD_SIZE"))
    self = read_torchrun(from);
  if (self && from.has("LOCAL_RANK"))
    self->local_rank = from.number("LOCAL_RANK", 0, most_launched_ranks - 1);
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
