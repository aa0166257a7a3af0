// Addresses as they appear in options and messages: "host:port", with an IPv6 address in brackets,
// "[::1]:7700"; and lists of addresses, "a:7700,b:7700".
//
// Free functions; thread-safe. No function here looks a name up in the network.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace millrace {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};
/// The host and the port of "host:port". Empty if one of them is missing, if the port is not a
/// number up to 65535, or if a host with colons lacks brackets.
std::optional<HostPort> ParseHostPort(std::string_view address);

/// Whether `address` is a host and a port that is at least `least_port`.
bool IsHostPort(std::string_view address, int least_port);

/// The host of host:port as it is written, with its brackets. The whole text if no port follows.
std::string_view HostOf(std::string_view address);

/// `address` with its port replaced.
std::string WithPort(std::string_view address, int port);

/// Whether host:port names this host only: localhost, 127.0.0.0/8 or [::1], in any spelling. Other
/// names do not count, whatever address they resolve to.
bool IsLoopback(std::string_view address);

/// Whether host:port covers every address of a host, so that nobody can connect to it: *, 0.0.0.0
/// or [::], in any spelling.
bool IsWildcard(std::string_view address);

/// The addresses between the commas, without empty ones. Never empty: the whole text if it has no
/// address.
std::vector<std::string> SplitAddresses(std::string_view text);

/// InvalidArgument if one of the addresses in `text` has no host, or no port that can be connected
/// to. Names with one of gRPC's schemes, such as unix:/path or ipv4:10.0.0.1:7700, are not checked
/// here: gRPC does that.
Status CheckAddresses(std::string_view what, std::string_view text);

}  // namespace millrace
