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

/// The parts of a request's head that something is done with.
struct HttpHead {
  std::string method;
  std::string path;  // without a query
  std::string host;  // headers are empty if they are not there
  std::string authorization;
  std::string accept_encoding;
};

/// A head may have so many bytes.
inline constexpr std::size_t kMostHeadBytes = 16'384;

/// How long the head is that `bytes` begin with, with its empty line. Nothing if its end is not
/// there.
std::optional<std::size_t> HeadSize(std::string_view bytes);

/// Reads a head. Nothing if `bytes` are none, or say twice what may be said once.
std::optional<HttpHead> ReadHead(std::string_view bytes);

/// The head of an answer, after which the connection ends. `bytes`: of the body, as it is sent.
std::string AnswerHead(const WebResponse& response, std::size_t bytes, bool gzip);

}  // namespace millrace
