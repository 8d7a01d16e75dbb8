// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace ferry::test {

/// A port of this machine that is taken while this lives.
class taken_port {
public:
  taken_port() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    auto address = ::sockaddr_in{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    auto size = ::socklen_t{sizeof address};
    ::bind(socket_, reinterpret_cast<::sockaddr*>(&address), size);
    ::getsockname(socket_, reinterpret_cast<::sockaddr*>(&address), &size);
    number_ = ntohs(address.sin_port);
  }
  taken_port(const taken_port&) = delete;
  taken_port& operator=(const taken_port&) = delete;
  ~taken_port() { ::close(socket_); }

  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }

  /// Takes connections and says nothing.
  void listen() const { ::listen(socket_, 8); }

private:
  int socket_;
  std::uint16_t number_ = 0;
};

/// Returns a port that nobody had a moment ago.
[[nodiscard]] inline std::uint16_t free_port() {
  return taken_port().number();
}

} // namespace ferry::test
