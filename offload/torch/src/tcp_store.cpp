// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/torch/tcp_store.hpp"

#include "ferry/platform/quantity.hpp"
#include "ferry/torch/torch_failure.hpp"
#include "patient_thread.hpp"
#include "reachable.hpp"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;
using octets = std::vector<std::uint8_t>;

constexpr auto ask_every = milliseconds(2);
/// A store answers a new connection within milliseconds.
constexpr auto longest_greeting = std::chrono::seconds(5);
/// For a look at a store that is somebody else's.
constexpr auto brief_visit = milliseconds(500);
/// What the store of rank 0 holds from its begin.
constexpr auto hosted_key = "hosted";

/// Precedes every value, so that a rank can tell its own from an equal one of another.
using authorship = std::array<std::uint64_t, 2>;

authorship new_authorship() {
  static std::atomic<std::uint64_t> count = 0;
  static const auto process = [] {
    auto source = std::random_device();
    return (std::uint64_t{source()} << 32) | source();
  }();
  return {process, ++count};
}

std::string place(const launched_rank& self) {
  return self.address + ":" + std::to_string(self.port);
}

std::string host(const launched_rank& self) {
  return (self.agent_hosts ? "the launcher at " : "rank 0 at ") + place(self);
}

/// Says that the store is to blame, and so is rank 0 where it hosts it.
failure lost(const launched_rank& self, std::string detail) {
  return {.code = errc::io_failure,
          .detail = std::move(detail),
          .rank = self.agent_hosts ? std::nullopt : std::optional(0)};
}

failure unanswered(const launched_rank& self, nanoseconds patience) {
  return lost(self, "no store answers at " + place(self) + " within " + duration_text(patience) +
                        "; check MASTER_ADDR and MASTER_PORT, and that " +
                        (self.agent_hosts ? "the launcher" : "rank 0") + " runs");
}

failure missed(const launched_rank& self, nanoseconds patience) {
  auto reason = unanswered(self, patience);
  reason.code = errc::deadline_exceeded;
  return reason;
}

/// Says that a rank has the wrong address of the store.
failure misled(const launched_rank& self, const std::string& what) {
  return {.code = errc::invalid_config,
          .detail = "MASTER_ADDR is '" + self.address + "', which is " + what +
                    "; expected the address of rank 0's machine",
          .rank = self.rank};
}

/// Says the same to whoever cannot host the store and to those who find something else there.
failure occupied(const launched_rank& self) {
  return lost(self, "port " + std::to_string(self.port) + " of " + self.address +
                        " is in use by something that is not the store of this run; set another "
                        "MASTER_PORT, on all ranks" +
                        (self.agent_hosts ? "" : ", unless two processes are rank 0"));
}

/// Silences c10d, which writes backtraces of what it throws as well; what it throws is told.
/// Whoever sets TORCH_CPP_LOG_LEVEL wants to see them.
void silence_c10d() {
  static const bool once = [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr)
      FLAGS_caffe2_log_level = c10::GLOG_FATAL;
    return true;
  }();
  static_cast<void>(once);
}

/// Runs `call` and translates what c10d throws while it does `what`.
template <class Call>
auto translated(const launched_rank& self, const std::string& what, const Call& call) {
  try {
    return call();
  } catch (const ferry_error&) {
    throw;
  } catch (const std::exception& error) {
    throw ferry_error(lost(self, what + ": " + failure_of(error).detail));
  }
}

bool hosts(const launched_rank& self) noexcept {
  return self.rank == 0 && !self.agent_hosts;
}

class tcp_store final : public key_value_store {
public:
  tcp_store(const launched_rank& self, nanoseconds patience);

  bool hosted_here() const noexcept override { return hosts(self_); }
  bool offer(const std::string& key, const_bytes value) override;
  bool await(std::span<const std::string> keys, nanoseconds patience) override;
  std::vector<std::byte> read(const std::string& key) override;

private:
  /// Runs `call` on the connection, on the thread that may get stuck in it.
  template <class Call>
  auto ask(Call call) {
    const auto run = [store = store_, call = std::move(call)] { return call(*store); };
    auto answer = translated(self_, "the store of " + host(self_),
                             [&] { return thread_.call(run, patience_); });
    if (!answer)
      throw ferry_error(unanswered(self_, patience_));
    return std::move(*answer);
  }
  [[nodiscard]] std::string full(const std::string& key) const;
  [[nodiscard]] std::shared_ptr<c10d::TCPStore> begin();
  [[nodiscard]] std::shared_ptr<c10d::TCPStore> connect();
  [[nodiscard]] std::shared_ptr<c10d::TCPStore> open(bool as_host, nanoseconds patience);

  launched_rank self_;
  nanoseconds patience_;
  std::shared_ptr<c10d::TCPStore> store_; ///< Also of a call that is stuck.
  patient_thread thread_;
};

tcp_store::tcp_store(const launched_rank& self, nanoseconds patience)
    : self_(self), patience_(patience) {
  silence_c10d();
  store_ = hosted_here() ? begin() : connect();
}

std::shared_ptr<c10d::TCPStore> tcp_store::open(bool as_host, nanoseconds patience) {
  auto options = c10d::TCPStoreOptions();
  options.port = self_.port;
  options.isServer = as_host;
  options.waitWorkers = false;
  options.timeout = std::chrono::ceil<milliseconds>(patience);
  return thread_
      .call([address = self_.address,
             options] { return std::make_shared<c10d::TCPStore>(address, options); },
            patience)
      .value_or(nullptr);
}

// c10d listens at every address of the machine, and then connects to the one that it was given.
// That may lead here by a way round, so that only one that does not is wrong.
std::shared_ptr<c10d::TCPStore> tcp_store::begin() {
  try {
    const auto what = "rank 0 cannot host what ranks meet at, on " + place(self_);
    if (auto opened = translated(self_, what, [&] { return open(true, patience_); }))
      return opened;
  } catch (const ferry_error& error) {
    if (error.reason().detail.find("EADDRINUSE") != std::string::npos)
      throw ferry_error(occupied(self_));
    if (is_own_address(self_.address))
      throw;
  }
  if (!is_own_address(self_.address))
    throw ferry_error(misled(self_, "no address of this machine"));
  throw ferry_error(missed(self_, patience_));
}

std::shared_ptr<c10d::TCPStore> tcp_store::connect() {
  const auto deadline = clock::now() + patience_;
  if (!await_listener(self_.address, self_.port, patience_))
    throw ferry_error(missed(self_, patience_));
  const auto left = deadline - clock::now();
  const auto what = "cannot connect to the store at " + place(self_);
  auto lost = std::optional<failure>();
  try {
    if (auto opened = translated(self_, what, [&] {
          return open(false, std::min<nanoseconds>(left, longest_greeting));
        }))
      return opened;
  } catch (const ferry_error& error) {
    lost = error.reason();
  }
  if (clock::now() >= deadline)
    throw ferry_error(missed(self_, patience_));
  // A store that has gone meanwhile takes its listener along.
  if (!lost || await_listener(self_.address, self_.port, nanoseconds::zero()))
    throw ferry_error(occupied(self_));
  throw ferry_error(*lost);
}

bool tcp_store::offer(const std::string& key, const_bytes value) {
  const auto author = new_authorship();
  auto mine = octets(sizeof author + value.size());
  std::memcpy(mine.data(), author.data(), sizeof author);
  if (!value.empty())
    std::memcpy(mine.data() + sizeof author, value.data(), value.size());
  return ask([key = full(key), mine = std::move(mine)](c10d::TCPStore& store) {
    return store.compareSet(key, octets(), mine) == mine;
  });
}

bool tcp_store::await(std::span<const std::string> keys, nanoseconds patience) {
  const auto deadline = clock::now() + patience;
  std::vector<std::string> all;
  for (const auto& key : keys)
    all.push_back(full(key));
  while (!ask([all](c10d::TCPStore& store) { return store.check(all); })) {
    if (clock::now() >= deadline)
      return false;
    std::this_thread::sleep_for(ask_every);
  }
  return true;
}

std::vector<std::byte> tcp_store::read(const std::string& key) {
  const auto found = ask([key = full(key)](c10d::TCPStore& store) { return store.get(key); });
  if (found.size() < sizeof(authorship))
    throw ferry_error({.code = errc::io_failure,
                       .detail = "the store at " + place(self_) + " holds '" + full(key) +
                                 "' with a value that Ferry has not written"});
  const auto value = std::as_bytes(std::span(found)).subspan(sizeof(authorship));
  return {value.begin(), value.end()};
}

std::string tcp_store::full(const std::string& key) const {
  return "ferry/" + self_.job + "/" + std::to_string(self_.restart) + "/" + key;
}

void tell_others(key_value_store& store, const failure& cause) {
  try {
    fail_ranks(store, cause);
  } catch (const ferry_error&) {
    // Ranks that cannot reach the store either fail by themselves.
  }
}

/// Tells those who take the store at the port of `self` for that of rank 0, which cannot host one.
/// Where it is that of another rank 0 of theirs, they are right.
void tell_ranks_astray(const launched_rank& self, const failure& cause) {
  auto guest = self;
  guest.agent_hosts = true;
  const auto hosted = std::array{std::string(hosted_key)};
  try {
    tcp_store theirs(guest, brief_visit);
    if (!theirs.await(hosted, brief_visit))
      fail_ranks(theirs, cause);
  } catch (const ferry_error&) {
    // No store is there: they find that themselves.
  }
}

} // namespace

result<std::shared_ptr<key_value_store>> open_tcp_store(const launched_rank& self,
                                                        nanoseconds patience) {
  if (const auto why = unknown_host(self.address))
    return tl::unexpected(misled(self, "no known host (" + *why + ")"));
  try {
    auto store = std::make_shared<tcp_store>(self, patience);
    if (store->hosted_here())
      store->offer(hosted_key, {});
    return store;
  } catch (const ferry_error& error) {
    if (hosts(self))
      tell_ranks_astray(self, error.reason());
    return tl::unexpected(error.reason());
  }
}

result<std::unique_ptr<rendezvous>> join_launched_ranks(const launched_rank& self,
                                                        nanoseconds patience) {
  const auto deadline = clock::now() + patience;
  auto store = open_tcp_store(self, patience);
  if (const auto misplaced = beyond_world(self)) {
    if (store)
      tell_others(**store, *misplaced);
    return tl::unexpected(*misplaced);
  }
  if (!store)
    return tl::unexpected(std::move(store.error()));
  return join_rendezvous(std::move(*store), self.rank, self.size, deadline - clock::now());
}

} // namespace ferry
