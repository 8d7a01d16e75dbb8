// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "reachable.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

namespace ferry {
namespace {

using clock = std::chrono::steady_clock;

constexpr auto try_every = std::chrono::milliseconds(20);

using address_list = std::unique_ptr<::addrinfo, void (*)(::addrinfo*)>;

/// What a name stands for.
struct resolution {
  address_list addresses{nullptr, ::freeaddrinfo};
  int error = 0; ///< Of `getaddrinfo`.
};

resolution resolve(const std::string& address, std::uint16_t port) {
  auto wanted = ::addrinfo{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  ::addrinfo* found = nullptr;
  resolution made;
  made.error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (made.error == 0)
    made.addresses.reset(found);
  return made;
}

/// Returns whether a socket can be bound to an address, to any port; nobody sees it.
bool can_be_bound(const ::addrinfo& to) {
  const auto socket = ::socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC, 0);
  if (socket < 0)
    return false;
  const auto bound = ::bind(socket, to.ai_addr, to.ai_addrlen) == 0;
  ::close(socket);
  return bound;
}

int milliseconds_until(clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

bool connects(int socket, const ::addrinfo& to, clock::time_point deadline) {
  if (::connect(socket, to.ai_addr, to.ai_addrlen) == 0)
    return true;
  if (errno != EINPROGRESS)
    return false;
  auto writable = ::pollfd{.fd = socket, .events = POLLOUT, .revents = 0};
  if (::poll(&writable, 1, milliseconds_until(deadline)) <= 0)
    return false;
  int error = 0;
  ::socklen_t size = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

bool answers(const std::string& address, std::uint16_t port, clock::time_point deadline) {
  const auto found = resolve(address, port);
  for (const auto* each = found.addresses.get(); each != nullptr; each = each->ai_next) {
    const auto socket =
        ::socket(each->ai_family, each->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0)
      continue;
    const auto connected = connects(socket, *each, deadline);
    ::close(socket);
    if (connected)
      return true;
  }
  return false;
}

} // namespace

std::optional<std::string> unknown_host(const std::string& address) {
  const auto error = resolve(address, 0).error;
  if (error == 0 || error == EAI_AGAIN) // Whoever knows names may not answer yet.
    return std::nullopt;
  return ::gai_strerror(error);
}

bool is_own_address(const std::string& address) {
  const auto found = resolve(address, 0);
  for (const auto* each = found.addresses.get(); each != nullptr; each = each->ai_next)
    if (can_be_bound(*each))
      return true;
  return false;
}

bool await_listener(const std::string& address, std::uint16_t port, nanoseconds patience) {
  const auto deadline = clock::now() + patience;
  while (!answers(address, port, deadline)) {
    if (clock::now() >= deadline)
      return false;
    std::this_thread::sleep_for(try_every);
  }
  return true;
}

} // namespace ferry
