// Lists of addresses, as options have them: "a:7700,b:7700".
//
// Free functions; thread-safe.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/parse_number.h"
#include "common/base/result.h"

namespace millrace {

/// The addresses between the commas, without what is empty; never none: the whole text, where it
/// has no other.
inline std::vector<std::string> SplitAddresses(std::string_view text) {
  std::vector<std::string> addresses;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    if (comma > begin) addresses.emplace_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  if (addresses.empty()) addresses.emplace_back(text);
  return addresses;
}

/// Whether `address` is a host and, behind the last colon, a port from `least_port` on.
inline bool IsHostPort(std::string_view address, int least_port) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  return ParseNumber<int>(address.substr(colon + 1), {.min = least_port, .max = 65535}).ok();
}

/// InvalidArgument where one of the addresses of `text` has no host, or no port to connect to. A
/// name of gRPC's with a scheme, such as unix:/path, is left to gRPC.
inline Status CheckAddresses(std::string_view what, std::string_view text) {
  for (const std::string& address : SplitAddresses(text)) {
    if (IsHostPort(address, 1) || address.find(":/", 1) != std::string::npos) continue;
    return InvalidArgument(std::string(what) + " '" + address +
                           "': expected host:port, such as 10.0.0.1:7700");
  }
  return OkStatus();
}

}  // namespace millrace
