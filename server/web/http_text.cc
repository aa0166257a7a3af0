#include "server/web/http_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

constexpr std::string_view kTokenMarks = "!#$%&'*+-.^_`|~";

bool IsAsciiLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// A token of RFC 9110, section 5.6.2.
bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsAsciiLetter(c) || (c >= '0' && c <= '9') ||
           kTokenMarks.find(c) != std::string_view::npos;
  });
}

/// Whether a text has no control character besides tabs.
bool IsPlain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view WithoutBlanks(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

/// The path of a target: what follows scheme and host, if a proxy says them, up to a query. Empty
/// if there is none.
std::string_view PathOf(std::string_view target) {
  if (const std::size_t scheme = target.find("://"); IsToken(target.substr(0, scheme))) {
    if (scheme == std::string_view::npos) return {};
    const std::size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  if (!target.starts_with('/')) return {};
  return target.substr(0, target.find_first_of("?#"));
}

/// Reads "GET /metrics HTTP/1.1".
bool ReadRequestLine(std::string_view line, HttpHead& head) {
  const std::size_t method = line.find(' ');
  const std::size_t version = line.rfind(' ');
  if (method == std::string_view::npos || version == method || !IsPlain(line)) return false;
  const std::string_view target = line.substr(method + 1, version - method - 1);
  head.method = line.substr(0, method);
  head.path = PathOf(target);
  const std::string_view last = line.substr(version + 1);
  return IsToken(head.method) && !head.path.empty() && target.find(' ') == std::string_view::npos &&
         (last == "HTTP/1.1" || last == "HTTP/1.0");
}

bool ReadHeader(std::string_view line, HttpHead& head) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon)) || !IsPlain(line)) {
    return false;
  }
  const std::string name = Lower(line.substr(0, colon));
  const std::string_view value = WithoutBlanks(line.substr(colon + 1));
  const std::array<std::pair<std::string_view, std::string*>, 2> once = {
      {{"host", &head.host}, {"authorization", &head.authorization}}};
  for (const auto& [known, to] : once) {
    if (name != known) continue;
    if (!to->empty()) return false;
    *to = value;
  }
  if (name == "accept-encoding") {
    head.accept_encoding += (head.accept_encoding.empty() ? "" : ", ") + std::string(value);
  }
  return true;
}

std::string_view ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 500:
      return "Internal Server Error";
    default:
      return "Service Unavailable";
  }
}

}  // namespace

std::optional<std::size_t> HeadSize(std::string_view bytes) {
  const std::size_t end = bytes.find(kHeadEnd);
  if (end == std::string_view::npos) return std::nullopt;
  return end + kHeadEnd.size();
}

std::optional<HttpHead> ReadHead(std::string_view bytes) {
  HttpHead head;
  bool first = true;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find(kLineEnd);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + kLineEnd.size());
    if (line.empty()) break;
    if (!(first ? ReadRequestLine(line, head) : ReadHeader(line, head))) return std::nullopt;
    first = false;
  }
  if (first || !bytes.empty()) return std::nullopt;
  return head;
}

std::string AnswerHead(const WebResponse& response, std::size_t bytes, bool gzip) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", response.code,
                                 ReasonOf(response.code), response.type);
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  if (gzip) head += "Content-Encoding: gzip\r\n";
  return head +
         fmt::format("Vary: Accept-Encoding\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                     bytes);
}

}  // namespace millrace
