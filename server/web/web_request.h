// Requests of the HTTP port, and its answers.
//
// Values; thread-compatible.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/access/access_policy.h"

namespace millrace {

struct WebRequest {
  std::string method;  // "GET"
  std::string path;    // "/status.json", without a query
  std::string host;    // the header Host; empty: missing
  std::string peer;    // address of the other end, such as 127.0.0.1 or ::1
  int peer_port = 0;
  int own_port = 0;
  bool tls = false;
  Shown shown;  // the verified certificate, and the token
};

struct WebResponse {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers;
  std::shared_ptr<const std::string> body;  // never null
};

}  // namespace millrace
