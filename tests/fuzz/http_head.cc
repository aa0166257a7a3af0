// The head of a request to the HTTP port.
#include "server/web/http_text.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto end = HeadSize(bytes);
  if (!end) return 0;
  fuzz::Require(*end <= size, "a head lies in what was said");
  const auto head = ReadHead(bytes.substr(0, *end));
  if (!head) return 0;
  fuzz::Require(head->path.starts_with('/'), "a path begins with a slash");
  for (const std::string* text :
       {&head->method, &head->path, &head->host, &head->authorization, &head->accept_encoding}) {
    fuzz::Require(std::none_of(text->begin(), text->end(),
                               [](char c) { return c == '\r' || c == '\n' || c == '\0'; }),
                  "no part of a head ends a line");
  }
  fuzz::Require(!ReadHead(std::string(bytes.substr(0, *end)) + "x"), "nothing follows a head");
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  return {"GET /metrics HTTP/1.1\r\nHost: a:7702\r\nAccept-Encoding: gzip\r\n\r\n",
          "HEAD http://a/status.json?b HTTP/1.0\r\nAuthorization: Basic Ym9iOnM=\r\n\r\n",
          "HELLO\r\n\r\n"};
}
