#include "server/web/web_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/system/file_descriptor.h"
#include "server/web/web_routes.h"

namespace millrace::test {
namespace {

/// A connection to a port of this host, over which something was said.
FileDescriptor Say(int port, const std::string& text) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
  return fd;
}

/// All that comes until the other end closes.
std::string Rest(const FileDescriptor& fd) {
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(fd.get(), bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<std::size_t>(got));
  }
  return answer;
}

/// The answer to these bytes on this host.
std::string Ask(int port, const std::string& request) { return Rest(Say(port, request)); }

std::string Get(int port, const std::string& path) {
  return Ask(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

/// A server that answers every request with its method, path, host and peer.
Result<std::unique_ptr<WebServer>> Echo(const std::string& listen = "127.0.0.1:0") {
  return WebServer::Start({.listen = listen, .answer = [](const WebRequest& request) {
                             return TextResponse(200, request.method + " " + request.path + " " +
                                                          request.host + " " + request.peer +
                                                          (request.tls ? " tls" : ""));
                           }});
}

TEST_CASE("a request comes with its parts, and its answer goes back", "[web]") {
  const auto server = Echo();
  REQUIRE(server.ok());
  const std::string answer = Get((*server)->port(), "/a/b?c=d");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.ends_with("\r\n\r\nGET /a/b localhost 127.0.0.1\n"));
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
  const auto server = WebServer::Start({.listen = "127.0.0.1:0", .answer = [&](const WebRequest&) {
                                          return TextResponse(200, text);
                                        }});
  REQUIRE(server.ok());
  CHECK(Get((*server)->port(), "/").ends_with(text + "\n"));
  const std::string packed =
      Ask((*server)->port(), "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
  CHECK(packed.find("Content-Encoding: gzip\r\n") != std::string::npos);
  CHECK(packed.size() < 20000);
}

TEST_CASE("a request may come in pieces", "[web]") {
  const auto server = Echo();
  REQUIRE(server.ok());
  const FileDescriptor peer = Say((*server)->port(), "GET /slow HT");
  CHECK(Get((*server)->port(), "/").starts_with("HTTP/1.1 200"));
  const std::string rest = "TP/1.1\r\n\r\n";
  REQUIRE(send(peer.get(), rest.data(), rest.size(), 0) == static_cast<ssize_t>(rest.size()));
  CHECK(Rest(peer).find("GET /slow ") != std::string::npos);
}

TEST_CASE("peers who do not say all of a request hold nobody up, and the first make room",
          "[web]") {
  std::atomic<int> refused{0};
  const auto server =
      WebServer::Start({.listen = "127.0.0.1:0",
                        .answer = [](const WebRequest&) { return TextResponse(200, "here"); },
                        .on_refused =
                            [&](RefusedConnection why, const std::string&) {
                              if (why == RefusedConnection::kSilent) ++refused;
                            },
                        .patience = std::chrono::hours(1)});
  REQUIRE(server.ok());
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(Say((*server)->port(), "GET / HTTP/1.1\r\n"));
  CHECK(Get((*server)->port(), "/").ends_with("here\n"));
  CHECK(Rest(silent.front()).empty());
  CHECK(refused > 0);
  char byte;
  CHECK(recv(silent.back().get(), &byte, 1, MSG_DONTWAIT) < 0);  // it is still there
}

TEST_CASE("a peer who does not say all of a request in time is closed", "[web]") {
  const auto server =
      WebServer::Start({.listen = "127.0.0.1:0",
                        .answer = [](const WebRequest&) { return TextResponse(200, "here"); },
                        .patience = std::chrono::milliseconds(1)});
  REQUIRE(server.ok());
  CHECK(Rest(Say((*server)->port(), "GET / HTTP/1.1\r\n")).empty());
}

TEST_CASE("peers who take nothing of their answers hold nobody up", "[web]") {
  const std::string text(8 << 20, 'x');
  const auto server =
      WebServer::Start({.listen = "127.0.0.1:0",
                        .answer = [&](const WebRequest&) { return TextResponse(200, text); },
                        .patience = std::chrono::hours(1)});
  REQUIRE(server.ok());
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(Say((*server)->port(), "GET / HTTP/1.1\r\n\r\n"));
  CHECK(Get((*server)->port(), "/").ends_with(text + "\n"));
}

TEST_CASE("an answer reaches a peer who says more than it reads", "[web]") {
  const auto server = Echo();
  REQUIRE(server.ok());
  const std::string body(1 << 20, 'x');
  const std::string head = "POST / HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n";
  CHECK(Ask((*server)->port(), head + body).find("POST / ") != std::string::npos);
}

TEST_CASE("a head that is too long is no request", "[web]") {
  const auto server = Echo();
  REQUIRE(server.ok());
  const std::string head = "GET / HTTP/1.1\r\nX: " + std::string(20000, 'x') + "\r\n\r\n";
  CHECK(Ask((*server)->port(), head).starts_with("HTTP/1.1 400 "));
}

TEST_CASE("a server ends while peers are connected", "[web]") {
  auto server = Echo();
  REQUIRE(server.ok());
  const FileDescriptor silent = Say((*server)->port(), "G");
  server->reset();
  CHECK(Rest(silent).empty());
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
