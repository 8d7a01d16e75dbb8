// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "process/process_identity.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace ferry {
namespace {

constexpr int started_field = 22; // of /proc/<pid>/stat, as proc(5) counts

/// Returns nothing if there is no such process.
std::optional<std::uint64_t> start_of(::pid_t id) {
  auto file = std::ifstream("/proc/" + std::to_string(id) + "/stat");
  auto line = std::string();
  if (!std::getline(file, line))
    return std::nullopt;
  // The second field is a name in parentheses that may hold anything.
  auto rest = std::istringstream(line.substr(line.rfind(')') + 1));
  auto word = std::string();
  for (int field = 3; field <= started_field; ++field)
    rest >> word;
  return std::stoull(word);
}

/// The C library's own function cannot be linked from C++ before glibc 2.37.
file_descriptor open_handle(::pid_t id) {
  return file_descriptor(static_cast<int>(::syscall(SYS_pidfd_open, id, 0)));
}

std::string this_place() {
  auto file = std::ifstream("/proc/sys/kernel/random/boot_id");
  auto boot = std::string();
  std::getline(file, boot);
  auto ignored = std::error_code();
  return boot + "/" + std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

} // namespace

process_identity this_process() {
  return {.place = this_place(), .id = ::getpid(), .started = start_of(::getpid()).value_or(0)};
}

std::string to_text(const process_identity& process) {
  return process.place + " " + std::to_string(process.id) + " " + std::to_string(process.started);
}

result<process_identity> read_process_identity(std::string_view text) {
  auto words = std::istringstream(std::string(text));
  auto process = process_identity{};
  if (!(words >> process.place >> process.id >> process.started) || process.id <= 0)
    return tl::unexpected(failure{.code = errc::invalid_argument,
                                  .detail = "'" + std::string(text) +
                                            "' names no process; expected a place, a process id "
                                            "and a start time"});
  return process;
}

peer_processes::peer_processes(std::span<const process_identity> ranks) {
  for (const auto& process : ranks)
    watch(static_cast<int>(peers_.size()), process);
}

void peer_processes::watch(int rank, const process_identity& process) {
  const auto position = static_cast<std::size_t>(rank);
  peers_.resize(std::max(peers_.size(), position + 1));
  auto& watched = peers_[position];
  watched = {};
  const auto here = this_process();
  if (process.place != here.place || process.id == here.id)
    return;
  watched.handle = open_handle(process.id);
  if (watched.handle.number() == file_descriptor::none && errno != ESRCH)
    throw device_error(errc::unsupported, "watch process " + std::to_string(process.id),
                       std::generic_category().message(errno));
  watched.ended_before = start_of(process.id) != process.started;
}

bool peer_processes::watched() const noexcept {
  return std::ranges::any_of(
      peers_, [](const auto& each) { return each.handle.number() != file_descriptor::none; });
}

bool peer_processes::gone(int rank) const noexcept {
  const auto position = static_cast<std::size_t>(rank);
  if (position >= peers_.size())
    return false;
  const auto& watched = peers_[position];
  if (watched.ended_before)
    return true;
  if (watched.handle.number() == file_descriptor::none)
    return false;
  auto query = ::pollfd{.fd = watched.handle.number(), .events = POLLIN, .revents = 0};
  return ::poll(&query, 1, 0) > 0;
}

} // namespace ferry
