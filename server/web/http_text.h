// The text of HTTP/1.1 (RFC 9112), as far as this port needs it: requests without a body, and one
// answer to each connection.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/web/web_request.h"

namespace millrace {

/// The used parts of a request's head.
struct HttpHead {
  std::string method;
  std::string path;  // without a query
  std::string host;  // headers are empty if they are missing
  std::string authorization;
  std::string accept_encoding;
};

/// The most bytes of a head.
inline constexpr std::size_t kMostHeadBytes = 16'384;

/// The length of the head at the start of `bytes`, with its empty line. nullopt if its end is
/// missing.
std::optional<std::size_t> HeadSize(std::string_view bytes);

/// Reads a head. nullopt if `bytes` are not a head, or repeat a header that may occur only once.
std::optional<HttpHead> ReadHead(std::string_view bytes);

/// The head of an answer, after which the connection ends. `bytes`: of the body, as it is sent.
std::string AnswerHead(const WebResponse& response, std::size_t bytes, bool gzip);

}  // namespace millrace
