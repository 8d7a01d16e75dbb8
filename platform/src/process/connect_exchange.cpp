// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "process/connect_exchange.hpp"

#include "collective_words.hpp"
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
  int descriptor = file_descriptor::none; ///< Of the memory it would share.
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

result<std::vector<introduction>> introduce(rendezvous& meeting, const exchange_options& options,
                                            int descriptor) {
  const auto own = to_text({options.self, descriptor});
  auto met = meeting.meet(options.name + "/join", as_contribution(own), options.to_join);
  if (!met)
    return tl::unexpected(met.error());
  std::vector<introduction> ranks;
  for (const auto& text : *met) {
    auto rank = read_introduction(as_text(text));
    if (!rank)
      return tl::unexpected(rank.error());
    ranks.push_back(std::move(*rank));
  }
  return ranks;
}

result<void> expect_one_machine(const std::vector<introduction>& ranks) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank)
    if (ranks[rank].process.place != ranks[0].process.place)
      return tl::unexpected(failure{
          .code = errc::unsupported,
          .detail = "rank " + std::to_string(rank) +
                    " runs on another machine or in another container than rank 0; ranks that "
                    "are CPU processes share memory and must run on one machine",
          .rank = static_cast<int>(rank)});
  return {};
}

std::vector<int> ranks_beside(const introduction& self, const std::vector<introduction>& ranks) {
  std::vector<int> beside;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].process.place == self.process.place)
      beside.push_back(static_cast<int>(rank));
  return beside;
}

/// Waits until a process that has closed what it had open is seen to have ended.
bool ends(const peer_processes& peers, int rank) {
  const auto deadline = std::chrono::steady_clock::now() + files_outlived;
  while (!peers.gone(rank) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return peers.gone(rank);
}

shared_memory map_that_of(int rank, const introduction& maker, const peer_processes& peers,
                          std::size_t bytes) {
  const auto path =
      "/proc/" + std::to_string(maker.process.id) + "/fd/" + std::to_string(maker.descriptor);
  auto file = file_descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const auto error = errno;
  if (file.number() == file_descriptor::none && ends(peers, rank))
    throw ferry_error({.code = errc::transfer_aborted,
                       .detail = ended(rank) + " before its memory was mapped",
                       .rank = rank});
  if (file.number() == file_descriptor::none)
    throw device_error(errc::unsupported,
                       "map the memory that rank " + std::to_string(rank) + " shares at " + path,
                       std::generic_category().message(error));
  return {std::move(file), bytes};
}

peer_processes watch(const std::vector<introduction>& ranks) {
  std::vector<process_identity> processes;
  for (const auto& rank : ranks)
    processes.push_back(rank.process);
  return peer_processes(processes);
}

} // namespace

result<connected_exchange> connect_exchange(rendezvous& meeting, const exchange_options& options) {
  const auto bytes = exchange_board::size(meeting.size());
  auto made = std::optional<shared_memory>();
  // Who is the first of its machine shows only once all have been introduced.
  if (meeting.rank() == 0 || options.spread == machines::several)
    made.emplace(bytes);
  const auto ranks = introduce(meeting, options, made ? made->descriptor() : file_descriptor::none);
  if (!ranks)
    return tl::unexpected(ranks.error());
  if (options.spread == machines::one)
    if (auto one = expect_one_machine(*ranks); !one)
      return tl::unexpected(one.error());
  const auto& self = (*ranks)[static_cast<std::size_t>(meeting.rank())];
  auto beside = ranks_beside(self, *ranks);
  const auto all_here = beside.size() == ranks->size();
  const auto maker = beside.front();
  auto peers = watch(*ranks);
  auto shared = std::make_shared<shared_memory>(
      maker == meeting.rank()
          ? std::move(*made)
          : map_that_of(maker, (*ranks)[static_cast<std::size_t>(maker)], peers, bytes));
  auto opened = std::make_shared<exchange>(std::move(shared), meeting.rank(), meeting.size(),
                                           options.patience, std::move(peers));
  opened->confine_to(std::move(beside));
  // Its maker keeps the descriptor open until everybody has mapped what is behind it.
  const auto mapped = meeting.meet(options.name + "/mapped", {}, options.to_join);
  if (!mapped)
    return tl::unexpected(mapped.error());
  opened->close_descriptor();
  return connected_exchange{std::move(opened), all_here};
}

failure refuse_together(rendezvous& meeting, const std::string& name, failure cause,
                        nanoseconds patience) {
  cause.rank = cause.rank.value_or(meeting.rank());
  meeting.poison(cause);
  // The first cause may be another.
  const auto met = meeting.meet(name + "/failed", {}, patience);
  return met ? std::move(cause) : met.error();
}

} // namespace ferry
