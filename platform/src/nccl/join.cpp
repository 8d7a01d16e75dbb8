// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl/join.hpp"

#include "ferry/platform/host_thread.hpp"
#include "ferry/platform/memory.hpp"
#include "ferry/platform/stream.hpp"
#include "nccl/link_watch.hpp"
#include "nccl/nccl_check.hpp"
#include "nccl/nccl_communicator.hpp"
#include "process/connect_exchange.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry::nccl {
namespace {

using clock = std::chrono::steady_clock;

constexpr auto patience_to_abort = std::chrono::seconds(5);

/// What ranks must agree on, or not share, before NCCL is asked for anything.
struct credentials {
  int version = 0;
  std::string machine; ///< Since it booted.
  std::string gpu;     ///< Its address on the bus of the machine. Empty: not known.
};

std::string to_text(const credentials& own) {
  return std::to_string(own.version) + " " + own.machine + " " + own.gpu;
}

credentials read_credentials(const std::string& text) {
  auto words = std::istringstream(text);
  credentials read;
  words >> read.version >> read.machine >> read.gpu;
  return read;
}

failure about(std::size_t rank, std::string detail) {
  return {.code = errc::unsupported, .detail = std::move(detail), .rank = static_cast<int>(rank)};
}

/// Judges what all ranks have brought, with the same words on each.
result<void> compare(const contributions& brought) {
  std::vector<credentials> ranks;
  for (const auto& text : brought)
    ranks.push_back(read_credentials(as_text(text)));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& own = ranks[rank];
    if (own.version != ranks[0].version)
      return tl::unexpected(about(rank, "rank " + std::to_string(rank) + " has NCCL " +
                                            version_text(own.version) + " and rank 0 has " +
                                            version_text(ranks[0].version) +
                                            "; all ranks need the same version"));
    for (std::size_t other = 0; other < rank; ++other)
      if (!own.gpu.empty() && ranks[other].machine == own.machine && ranks[other].gpu == own.gpu)
        return tl::unexpected(about(rank, "rank " + std::to_string(other) + " and rank " +
                                              std::to_string(rank) + " are both on GPU " + own.gpu +
                                              " of one machine; each rank needs a GPU of its own"));
  }
  return {};
}

/// Returns the name under which NCCL connects the ranks, which rank 0 makes. The current device is
/// the rank's.
result<ncclUniqueId> share_id(const api& library, rendezvous& meeting,
                              const nccl_communicator_options& options) {
  ncclUniqueId id{};
  const auto bytes = std::as_bytes(std::span(id.internal));
  if (meeting.rank() == 0)
    if (auto made = check(library, "ncclGetUniqueId", library.ncclGetUniqueId(&id)); !made)
      return tl::unexpected(made.error());
  const auto brought = meeting.meet(options.name + "/id",
                                    meeting.rank() == 0 ? bytes : const_bytes{}, options.to_join);
  if (!brought)
    return tl::unexpected(brought.error());
  if (brought->front().size() != sizeof(id.internal))
    return tl::unexpected(failure{.code = errc::internal, .detail = "rank 0 brought no NCCL id"});
  std::memcpy(id.internal, brought->front().data(), sizeof(id.internal));
  return id;
}

/// NCCL takes this variable for more than it is told: with 1 there no call would have a deadline.
result<void> require_no_blocking() {
  const auto* const value = std::getenv("NCCL_COMM_BLOCKING");
  if (value == nullptr || std::string_view(value) == "0")
    return {};
  return tl::unexpected(
      failure{.code = errc::unsupported,
              .detail = "NCCL_COMM_BLOCKING is '" + std::string(value) +
                        "', by which NCCL may wait for ever for a rank; unset it, or set it to 0"});
}

/// Starts to connect: NCCL goes on by itself. The current device is the rank's.
result<ncclComm_t> start_comm(const api& library, const peer_group& group, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const auto said = library.ncclCommInitRankConfig(&comm, group.size(), id, group.rank(), &config);
  auto started = check(library, "ncclCommInitRankConfig", said);
  if (started && comm != nullptr)
    return comm;
  if (comm != nullptr)
    check_while_closing(library, "ncclCommAbort", library.ncclCommAbort(comm));
  return tl::unexpected(
      started ? failure{.code = errc::internal, .detail = "ncclCommInitRankConfig made nothing"}
              : started.error());
}

/// What the first gather works on: a guest of the device while NCCL may still be at it.
class first_gather final : public cuda_guest {
public:
  first_gather(cuda_device& device, std::shared_ptr<rank_link> link)
      : link_(std::move(link)),
        bytes_(device, memory_kind::device, 1 + static_cast<std::size_t>(link_->size())),
        stream_(device, "nccl connect") {}

  [[nodiscard]] bool gone() const noexcept override { return link_->finished(); }

  void start(clock::time_point deadline) {
    link_->all_gather(stream_.id(), bytes_.bytes().subspan(1), bytes_.bytes().first(1),
                      {.what = "connect"}, deadline);
  }

private:
  std::shared_ptr<rank_link> link_;
  memory_block bytes_;
  stream stream_;
};

/// Gathers a byte: NCCL connects ranks for good when they first gather, and whoever enqueues then
/// waits for all. That is to be here.
bool gather_first(const std::shared_ptr<rank_link>& link, cuda_device& device,
                  clock::time_point deadline) {
  auto first = std::make_unique<first_gather>(device, link);
  try {
    first->start(deadline);
    if (link->await_idle(deadline))
      return true;
  } catch (const device_error&) {
    // The group has failed with it.
  }
  // Nobody uses the memory once NCCL is closed.
  if (!link->await_finished(clock::now() + patience_to_abort))
    device.keep(std::move(first));
  return false;
}

class joining {
public:
  joining(const api& library, cuda_device& device, std::shared_ptr<rendezvous> meeting,
          const nccl_communicator_options& options, const process_identity& self)
      : library_(&library), device_(&device), meeting_(std::move(meeting)), options_(&options),
        self_(&self), deadline_(clock::now() + options.to_join) {}

  result<std::unique_ptr<communicator>> run() {
    auto made = attempt();
    if (made)
      return made;
    if (group_)
      group_->fail(made.error());
    return tl::unexpected(refuse_together(
        *meeting_, options_->name, group_ ? group_->failed().value_or(made.error()) : made.error(),
        options_->to_join));
  }

private:
  result<std::unique_ptr<communicator>> attempt() {
    try {
      return connect();
    } catch (const ferry_error& error) {
      return tl::unexpected(error.reason());
    }
  }

  result<std::unique_ptr<communicator>> connect() {
    if (auto free = require_no_blocking(); !free)
      return tl::unexpected(free.error());
    if (auto fit = compare_credentials(); !fit)
      return tl::unexpected(fit.error());
    auto exchange = connect_exchange(*meeting_, {.name = options_->name,
                                                 .patience = options_->patience,
                                                 .to_join = options_->to_join,
                                                 .spread = machines::several,
                                                 .self = *self_});
    if (!exchange)
      return tl::unexpected(exchange.error());
    group_ = std::make_shared<peer_group>(std::move(exchange->shared),
                                          exchange->all_here ? nullptr : meeting_);

    const host_thread me(*device_, "nccl");
    const host_thread::scope current(me);
    const auto id = share_id(*library_, *meeting_, *options_);
    if (!id)
      return tl::unexpected(id.error());
    const auto comm = start_comm(*library_, *group_, *id);
    if (!comm)
      return tl::unexpected(comm.error());
    const auto link =
        std::make_shared<rank_link>(*library_, *device_, *comm, group_, options_->patience);
    device_->keep(std::make_unique<link_watch>(link));
    auto end = std::make_unique<nccl_communicator>(link);
    if (!link->await_connected(deadline_) || !gather_first(link, *device_, deadline_))
      return tl::unexpected(*group_->failed());
    if (const auto ready = meeting_->meet(options_->name + "/ready", {}, options_->to_join); !ready)
      return tl::unexpected(ready.error());
    return end;
  }

  result<void> compare_credentials() {
    const auto version = usable_version(*library_);
    if (!version)
      return tl::unexpected(version.error());
    const auto& place = self_->place;
    const auto own = to_text({.version = *version,
                              .machine = place.substr(0, place.find('/')),
                              .gpu = device_->bus_id()});
    const auto brought =
        meeting_->meet(options_->name + "/credentials", as_contribution(own), options_->to_join);
    return brought ? compare(*brought) : tl::unexpected(brought.error());
  }

  const api* library_;
  cuda_device* device_;
  std::shared_ptr<rendezvous> meeting_;
  const nccl_communicator_options* options_;
  const process_identity* self_;
  clock::time_point deadline_;
  std::shared_ptr<peer_group> group_;
};

} // namespace

result<std::unique_ptr<communicator>> join(const api& library, cuda_device& device,
                                           std::shared_ptr<rendezvous> meeting,
                                           const nccl_communicator_options& options,
                                           const process_identity& self) {
  return joining(library, device, std::move(meeting), options, self).run();
}

} // namespace ferry::nccl

namespace ferry {

result<std::unique_ptr<communicator>>
open_nccl_communicator(cuda_device& device, std::shared_ptr<rendezvous> meeting,
                       const nccl_communicator_options& options) {
  const auto& loaded = nccl::loaded_api();
  if (!loaded)
    return tl::unexpected(refuse_together(*meeting, options.name, loaded.error(), options.to_join));
  return nccl::join(*loaded, device, std::move(meeting), options);
}

} // namespace ferry
