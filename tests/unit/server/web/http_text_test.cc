#include "server/web/http_text.h"

#include <catch2/catch.hpp>

namespace millrace::test {
namespace {

HttpHead Read(const std::string& bytes) {
  const auto head = ReadHead(bytes);
  CAPTURE(bytes);
  REQUIRE(head);
  return *head;
}

TEST_CASE("a head ends at its empty line", "[web]") {
  CHECK_FALSE(HeadSize("GET / HTTP/1.1\r\nHost: a\r\n"));
  CHECK(HeadSize("GET / HTTP/1.1\r\n\r\nmore") == 18);
}

TEST_CASE("a head is read, whatever the case of its headers' names", "[web]") {
  const HttpHead head = Read(
      "GET /metrics?a=b HTTP/1.1\r\nHOST:  here:7702 \r\nauthorization: Bearer t\r\n"
      "Accept-Encoding: gzip\r\naccept-encoding: br\r\nX: \t\r\n\r\n");
  CHECK(head.method == "GET");
  CHECK(head.path == "/metrics");
  CHECK(head.host == "here:7702");
  CHECK(head.authorization == "Bearer t");
  CHECK(head.accept_encoding == "gzip, br");
}

TEST_CASE("a proxy may say the whole address", "[web]") {
  CHECK(Read("GET http://here:7702/a?b HTTP/1.1\r\n\r\n").path == "/a");
  CHECK(Read("GET http://here HTTP/1.0\r\n\r\n").path == "/");
}

TEST_CASE("what is no head is refused", "[web]") {
  for (const char* bytes :
       {"", "\r\n\r\n", "HELLO\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/2.0\r\n\r\n",
        "GET / / HTTP/1.1\r\n\r\n", "GET * HTTP/1.1\r\n\r\n", "G T / HTTP/1.1\r\n\r\n",
        " GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost a\r\n\r\n",
        "GET / HTTP/1.1\r\n folded: a\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\x01\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", "GET /\x7f HTTP/1.1\r\n\r\n"}) {
    CAPTURE(bytes);
    CHECK_FALSE(ReadHead(bytes));
  }
}

TEST_CASE("the head of an answer has its code, length and headers", "[web]") {
  WebResponse response;
  response.code = 404;
  response.headers = {{"Allow", "GET"}};
  CHECK(AnswerHead(response, 12, false) ==
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nAllow: GET\r\n"
        "Vary: Accept-Encoding\r\nContent-Length: 12\r\nConnection: close\r\n\r\n");
  CHECK(AnswerHead(response, 12, true).find("Content-Encoding: gzip\r\n") != std::string::npos);
}

}  // namespace
}  // namespace millrace::test
