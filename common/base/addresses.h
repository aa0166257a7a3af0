// Addresses as options, messages and people write them: "host:port", with an IPv6 address in
// brackets, "[::1]:7700"; and lists of them, "a:7700,b:7700".
//
// Free functions; thread-safe. None of them asks the network for a name.
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
/// The parts of "host:port"; empty where one of them is missing, where the port is no number up to
/// 65535, or where a host with colons lacks brackets.
std::optional<HostPort> ParseHostPort(std::string_view address);

/// Whether `address` is a host and a port from `least_port` on.
bool IsHostPort(std::string_view address, int least_port);

/// The host of host:port as it is written, with its brackets: the whole text where no port follows.
std::string_view HostOf(std::string_view address);

/// `address` with another port.
std::string WithPort(std::string_view address, int port);

/// Whether host:port names the own host only: localhost, 127.0.0.0/8, [::1], however they are
/// written. Other names do not count, whatever they resolve to.
bool IsLoopback(std::string_view address);

/// Whether host:port stands for every address of a host, so that none can connect to it: *,
/// 0.0.0.0, [::], however they are written.
bool IsWildcard(std::string_view address);

/// The addresses between the commas, without empty ones. Never empty: the whole text if it has no
/// address.
std::vector<std::string> SplitAddresses(std::string_view text);

/// InvalidArgument where one of the addresses of `text` has no host, or no port to connect to. A
/// name of gRPC's with a scheme, such as unix:/path or ipv4:10.0.0.1:7700, is left to gRPC.
Status CheckAddresses(std::string_view what, std::string_view text);

}  // namespace millrace
