// Sockets of tests that stand for a server.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include <catch2/catch.hpp>

namespace millrace::test {

/// Makes the socket listen on a free port; returns its address.
inline std::string Listen(int socket) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(listen(socket, 64) == 0);
  REQUIRE(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

}  // namespace millrace::test
