// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "collective_words.hpp"
#include "ferry/platform/host_communicator.hpp"
#include "host/host_communicator.hpp"
#include "process/process_identity.hpp"
#include "process/shared_memory.hpp"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ferry {
namespace {

/// For how long a process may be seen to live when its files are closed already.
constexpr auto files_outlived = std::chrono::milliseconds(250);

/// What a rank tells the others of itself.
struct introduction {
  process_identity process;
  int descriptor = file_descriptor::none; ///< Rank 0: of the shared memory.
};

std::string to_text(const introduction& rank) {
  return std::to_string(rank.descriptor) + " " + to_text(rank.process);
}

result<introduction> read_introduction(const std::string& text) {
  auto words = std::istringstream(text);
  auto rank = introduction{};
  auto process = std::string();
  words >> rank.descriptor;
  std::getline(words, process);
  auto known = read_process_identity(process);
  if (!known)
    return tl::unexpected(known.error());
  rank.process = std::move(*known);
  return rank;
}

result<std::vector<introduction>> introduce(rendezvous& meeting, const std::string& name,
                                            int descriptor, nanoseconds patience) {
  const auto own = to_text({this_process(), descriptor});
  auto met = meeting.meet(name + "/processes", as_contribution(own), patience);
  if (!met)
    return tl::unexpected(met.error());
  std::vector<introduction> ranks;
  for (const auto& text : *met) {
    auto rank = read_introduction(as_text(text));
    if (!rank)
      return tl::unexpected(rank.error());
    ranks.push_back(std::move(*rank));
  }
  for (std::size_t rank = 1; rank < ranks.size(); ++rank)
    if (ranks[rank].process.place != ranks[0].process.place)
      return tl::unexpected(failure{
          .code = errc::unsupported,
          .detail = "rank " + std::to_string(rank) +
                    " runs on another machine or in another container than rank 0; ranks that "
                    "are CPU processes share memory and must run on one machine",
          .rank = static_cast<int>(rank)});
  return ranks;
}

/// Waits until a process that has closed what it had open is seen to have ended.
bool ends(const peer_processes& peers, int rank) {
  const auto deadline = std::chrono::steady_clock::now() + files_outlived;
  while (!peers.gone(rank) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return peers.gone(rank);
}

shared_memory map_that_of(const introduction& maker, const peer_processes& peers,
                          std::size_t bytes) {
  const auto path =
      "/proc/" + std::to_string(maker.process.id) + "/fd/" + std::to_string(maker.descriptor);
  auto file = file_descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const auto error = errno;
  if (file.number() == file_descriptor::none && ends(peers, 0))
    throw ferry_error({.code = errc::transfer_aborted,
                       .detail = ended(0) + " before its memory was mapped",
                       .rank = 0});
  if (file.number() == file_descriptor::none)
    throw device_error(errc::unsupported, "map the memory that rank 0 shares at " + path,
                       std::generic_category().message(error));
  return {std::move(file), bytes};
}

peer_processes watch(const std::vector<introduction>& ranks) {
  std::vector<process_identity> processes;
  for (const auto& rank : ranks)
    processes.push_back(rank.process);
  return peer_processes(processes);
}

result<std::shared_ptr<exchange>> connect(rendezvous& meeting, const std::string& name,
                                          nanoseconds patience, nanoseconds to_join) {
  const auto bytes = exchange_board::size(meeting.size());
  auto made = std::optional<shared_memory>();
  if (meeting.rank() == 0)
    made.emplace(bytes);
  const auto ranks =
      introduce(meeting, name, made ? made->descriptor() : file_descriptor::none, to_join);
  if (!ranks)
    return tl::unexpected(ranks.error());
  auto peers = watch(*ranks);
  auto shared = std::make_shared<shared_memory>(made ? std::move(*made)
                                                     : map_that_of(ranks->front(), peers, bytes));
  auto opened = std::make_shared<exchange>(std::move(shared), meeting.rank(), meeting.size(),
                                           patience, std::move(peers));
  // Rank 0 keeps the descriptor open until everybody has mapped what is behind it.
  const auto mapped = meeting.meet(name + "/mapped", {}, to_join);
  if (!mapped)
    return tl::unexpected(mapped.error());
  opened->close_descriptor();
  return opened;
}

} // namespace

result<std::unique_ptr<communicator>>
join_process_communicator(host_device& device, rendezvous& meeting, std::string_view name,
                          nanoseconds patience, nanoseconds to_join) {
  try {
    auto opened = connect(meeting, std::string(name), patience, to_join);
    if (!opened)
      return tl::unexpected(opened.error());
    return std::make_unique<host_communicator>(device, std::move(*opened));
  } catch (const ferry_error& error) {
    auto reason = error.reason();
    reason.rank = reason.rank.value_or(meeting.rank());
    meeting.poison(reason);
    // The first cause may be another: what rank 0 shares goes with rank 0.
    const auto met = meeting.meet(std::string(name) + "/failed", {}, to_join);
    return tl::unexpected(met ? std::move(reason) : met.error());
  }
}

} // namespace ferry
