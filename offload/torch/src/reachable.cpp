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
  auto wanted = ::addrinfo{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  ::addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0)
    return false;
  const auto list = std::unique_ptr<::addrinfo, void (*)(::addrinfo*)>(found, ::freeaddrinfo);
  for (const auto* each = list.get(); each != nullptr; each = each->ai_next) {
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
