// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/platform/rendezvous.hpp>

#include "contract/meetings.hpp"
#include "support/directory_store.hpp"
#include "support/scratch_directory.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace ferry::test {

inline meetings join_all(const std::vector<std::shared_ptr<key_value_store>>& stores) {
  std::vector<std::future<result<std::unique_ptr<rendezvous>>>> joining;
  for (std::size_t rank = 0; rank < stores.size(); ++rank)
    joining.push_back(std::async(std::launch::async, [&, rank] {
      return join_rendezvous(stores[rank], static_cast<int>(rank), static_cast<int>(stores.size()),
                             std::chrono::minutes(5));
    }));
  meetings ends;
  for (auto& joined : joining)
    ends.push_back(std::move(joined.get().value()));
  return ends;
}

struct threads_meet {
  static meetings open(int size) { return make_memory_rendezvous(size); }
};

struct ranks_that_join_meet {
  static meetings open(int size) {
    return join_all({static_cast<std::size_t>(size), make_memory_store()});
  }
};

struct ranks_with_a_directory_meet {
  static meetings open(int size) {
    static std::vector<std::unique_ptr<scratch_directory>> directories;
    directories.push_back(std::make_unique<scratch_directory>());
    std::vector<std::shared_ptr<key_value_store>> stores;
    for (int rank = 0; rank < size; ++rank)
      stores.push_back(std::make_shared<directory_store>(directories.back()->path()));
    return join_all(stores);
  }
};

} // namespace ferry::test

#define FERRY_RENDEZVOUS_SUBJECTS threads_meet, ranks_that_join_meet, ranks_with_a_directory_meet
#include "contract/rendezvous_contract.hpp"

namespace ferry::test {
namespace {

class broken_store final : public key_value_store {
public:
  bool hosted_here() const noexcept override { return false; }
  bool offer(const std::string&, const_bytes) override { fail(); }
  bool await(std::span<const std::string>, nanoseconds) override { fail(); }
  std::vector<std::byte> read(const std::string&) override { fail(); }

private:
  [[noreturn]] static void fail() {
    throw ferry_error({.code = errc::io_failure, .detail = "connection reset"});
  }
};

TEST_CASE("a store that cannot be reached fails the meeting with its reason", "[rendezvous]") {
  const auto joined = join_rendezvous(std::make_shared<broken_store>(), 0, 2, unlimited);

  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == errc::io_failure);
  CHECK(joined.error().detail == "connection reset");
}

/// Lives with the process of rank 0.
class hosted_store final : public key_value_store {
public:
  explicit hosted_store(std::shared_ptr<key_value_store> store) : store_(std::move(store)) {}

  bool hosted_here() const noexcept override { return true; }
  bool offer(const std::string& key, const_bytes value) override {
    return store_->offer(key, value);
  }
  bool await(std::span<const std::string> keys, nanoseconds patience) override {
    return store_->await(keys, patience);
  }
  std::vector<std::byte> read(const std::string& key) override { return store_->read(key); }

private:
  std::shared_ptr<key_value_store> store_;
};

TEST_CASE("ranks that refuse to join and those that join fail with the first refusal",
          "[rendezvous]") {
  const auto store = make_memory_store();
  auto joining =
      std::async(std::launch::async, [&] { return join_rendezvous(store, 2, 3, unlimited); });

  const auto first = refuse_to_join(*store, 1, {.code = errc::not_found, .detail = "no model"});
  const auto second = refuse_to_join(*store, 0, {.code = errc::cancelled, .detail = "over"});

  CHECK(first == failure{.code = errc::not_found, .detail = "no model", .rank = 1});
  CHECK(second == first);
  const auto joined = joining.get();
  REQUIRE_FALSE(joined);
  CHECK(joined.error() == first);
}

TEST_CASE("a rank that has refused to join can keep its store until the others have been told",
          "[rendezvous]") {
  const auto store = make_memory_store();
  auto refusing = std::async(std::launch::async, [&] {
    const auto first = refuse_to_join(*store, 0, {.code = errc::not_found, .detail = "no model"});
    await_leaving_ranks(*store, 2, unlimited);
    return first;
  });
  CHECK(refusing.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);

  const auto late = join_rendezvous(store, 1, 2, unlimited);

  REQUIRE_FALSE(late);
  CHECK(late.error() == refusing.get());
}

/// Announces a process that has ended as `rank`.
void announce_ended(const std::filesystem::path& directory, int rank) {
  const auto child = ::fork();
  if (child == 0) {
    directory_store store(directory);
    ::_exit(announce_rank(store, rank, 2) ? 0 : 1);
  }
  REQUIRE(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a rank that has refused to join does not wait for processes that have ended",
          "[rendezvous]") {
  const scratch_directory directory;
  announce_ended(directory.path(), 1);
  directory_store store(directory.path());
  const auto begun = std::chrono::steady_clock::now();

  const auto first = refuse_to_join(store, 0, {.code = errc::not_found, .detail = "no model"});
  await_leaving_ranks(store, 2, unlimited);

  CHECK(first == failure{.code = errc::not_found, .detail = "no model", .rank = 0});
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(5));
}

/// What a process of another job is told that comes to where ranks have joined, and whether they
/// noticed: 0 if it was refused.
int intrude(const std::filesystem::path& directory, int rank) {
  const auto child = ::fork();
  if (child == 0) {
    const auto store = std::make_shared<directory_store>(directory);
    const auto announced = announce_rank(*store, rank, 2);
    const auto joined = join_rendezvous(store, rank, 2, std::chrono::seconds(5));
    const auto refused =
        !announced && !joined && announced.error() == joined.error() &&
        announced.error().code == errc::invalid_argument &&
        announced.error().detail.find("they are of another job") != std::string::npos;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WEXITSTATUS(status);
}

TEST_CASE("a process of another job that comes to ranks that have joined is refused alone",
          "[rendezvous]") {
  const scratch_directory directory;
  const auto store = std::make_shared<directory_store>(directory.path());
  auto second =
      std::async(std::launch::async, [&] { return join_rendezvous(store, 1, 2, unlimited); });
  const auto first = join_rendezvous(store, 0, 2, unlimited);
  const auto other = second.get();
  REQUIRE(first);
  REQUIRE(other);

  CHECK(intrude(directory.path(), 1) == 0);

  CHECK_FALSE((*first)->failed());
  auto meeting = std::async(std::launch::async,
                            [&] { return (*other)->meet("votes", {}, unlimited).has_value(); });
  CHECK((*first)->meet("votes", {}, unlimited));
  CHECK(meeting.get());
}

TEST_CASE("a rank that misses another keeps its store for those that live and have not left",
          "[rendezvous]") {
  const auto store = make_memory_store();
  REQUIRE(announce_rank(*store, 1, 3));
  auto joining = std::async(std::launch::async, [&] {
    return join_rendezvous(std::make_shared<hosted_store>(store), 0, 3,
                           std::chrono::milliseconds(50));
  });

  CHECK(joining.wait_for(std::chrono::milliseconds(800)) == std::future_status::timeout);

  const auto told = refuse_to_join(*store, 1, {.code = errc::cancelled, .detail = ""});
  CHECK(joining.wait_for(std::chrono::milliseconds(800)) == std::future_status::ready);
  const auto missed = joining.get();
  REQUIRE_FALSE(missed);
  CHECK(missed.error().code == errc::deadline_exceeded);
  CHECK(told == missed.error());
}

TEST_CASE("two processes cannot join as one rank", "[rendezvous]") {
  const auto store = make_memory_store();
  auto second =
      std::async(std::launch::async, [&] { return join_rendezvous(store, 1, 2, unlimited); });
  const auto first = join_rendezvous(store, 0, 2, unlimited);

  const auto third = join_rendezvous(store, 1, 2, unlimited);

  REQUIRE(first);
  REQUIRE(second.get());
  REQUIRE_FALSE(third);
  CHECK(third.error().code == errc::invalid_argument);
  CHECK(third.error().rank == 1);
  CHECK((*first)->meet("votes", {}, unlimited).error() == third.error());
}

TEST_CASE("ranks that expect different sizes all fail with the rank that does", "[rendezvous]") {
  const auto store = make_memory_store();
  auto other =
      std::async(std::launch::async, [&] { return join_rendezvous(store, 1, 3, unlimited); });

  const auto joined = join_rendezvous(store, 0, 2, unlimited);
  const auto other_joined = other.get();

  REQUIRE_FALSE(joined);
  CHECK(joined.error().code == errc::invalid_config);
  CHECK(joined.error().detail ==
        "rank 1 expects 3 ranks and rank 0 expects 2; start all with one size");
  REQUIRE_FALSE(other_joined);
  CHECK(other_joined.error() == joined.error());
}

} // namespace
} // namespace ferry::test
