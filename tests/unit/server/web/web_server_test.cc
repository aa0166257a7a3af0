#include "server/web/web_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include <catch2/catch.hpp>

#include "server/web/web_routes.h"

namespace millrace::test {
namespace {

/// The answer to these bytes on this host.
std::string Ask(int port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<std::size_t>(got));
  }
  close(fd);
  return answer;
}

std::string Get(int port, const std::string& path) {
  return Ask(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

/// A server that answers every request with its method, path, host and peer.
Result<std::unique_ptr<WebServer>> Echo(const std::string& listen = "127.0.0.1:0") {
  return WebServer::Start(listen, nullptr, [](const WebRequest& request) {
    return TextResponse(200, request.method + " " + request.path + " " + request.host + " " +
                                 request.peer + (request.tls ? " tls" : ""));
  });
}

TEST_CASE("a request comes with its parts, and its answer goes back", "[web]") {
  const auto server = Echo();
  REQUIRE(server.ok());
  const std::string answer = Get((*server)->port(), "/a/../b?c=d");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.ends_with("\r\n\r\nGET /b localhost 127.0.0.1\n"));
}

TEST_CASE("HEAD gets the headers of the answer alone", "[web]") {
  const auto server = Echo();
  REQUIRE(server.ok());
  const std::string answer = Ask((*server)->port(), "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(answer.find("Content-Length: 27\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\n"));
}

TEST_CASE("what is no request gets an answer that says as much as any other", "[web]") {
  const auto server = Echo();
  REQUIRE(server.ok());
  const std::string answer = Ask((*server)->port(), "HELLO\r\n\r\n");
  CHECK(answer.starts_with("HTTP/1.1 400 "));
  CHECK(answer.find("Content-Security-Policy: default-src 'none'") != std::string::npos);
  CHECK(answer.find("HELLO") == std::string::npos);
}

TEST_CASE("a large answer is compressed for peers that take gzip", "[web]") {
  const std::string text(1 << 20, 'x');
  const auto server = WebServer::Start("127.0.0.1:0", nullptr,
                                       [&](const WebRequest&) { return TextResponse(200, text); });
  REQUIRE(server.ok());
  CHECK(Get((*server)->port(), "/").ends_with(text + "\n"));
  const std::string packed =
      Ask((*server)->port(), "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
  CHECK(packed.find("Content-Encoding: gzip\r\n") != std::string::npos);
  CHECK(packed.size() < 20000);
}

TEST_CASE("a busy port, and an address of another machine, are refused", "[web]") {
  const auto first = Echo();
  REQUIRE(first.ok());
  const std::string same = "127.0.0.1:" + std::to_string((*first)->port());
  const Status busy = Echo(same).status();
  CHECK(busy.code() == StatusCode::kAlreadyExists);
  CHECK(busy.message().find(same) != std::string::npos);
  CHECK(Echo("192.0.2.1:0").status().code() == StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::test
