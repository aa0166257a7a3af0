#include "common/base/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "common/base/parse_number.h"

namespace millrace {
namespace {

std::string_view WithoutBrackets(std::string_view host) {
  const bool has = host.size() > 1 && host.front() == '[' && host.back() == ']';
  return has ? host.substr(1, host.size() - 2) : host;
}

/// An address of IPv4 or IPv6 in the form of IPv6. An IPv4 address a.b.c.d becomes ::ffff:a.b.c.d.
using Bytes = std::array<std::uint8_t, 16>;
constexpr Bytes kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool IsMapped(const Bytes& bytes) { return std::equal(&bytes[0], &bytes[12], kMapped.begin()); }

/// The bytes of a numeric host, in any spelling that a connection accepts. Empty for a name.
std::optional<Bytes> Numeric(std::string_view address) {
  const std::string_view bare = WithoutBrackets(HostOf(address));
  const std::string host(bare.substr(0, bare.find('%')));  // without "%eth0"
  Bytes bytes = kMapped;
  if (in_addr v4{}; inet_aton(host.c_str(), &v4) != 0) {
    std::memcpy(&bytes[12], &v4, sizeof v4);
    return bytes;
  }
  if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1) return bytes;
  return std::nullopt;
}

/// Whether gRPC reads `address` as a name with a scheme, and not as host:port.
bool HasScheme(std::string_view address) {
  constexpr std::array<std::string_view, 5> kSchemes = {
      "dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:"};
  return address.find(":/", 1) != std::string_view::npos ||
         std::any_of(kSchemes.begin(), kSchemes.end(), [&](std::string_view scheme) {
           // "dns:7700" is a host and a port.
           return address.starts_with(scheme) && !IsHostPort(address, 0);
         });
}

}  // namespace

std::optional<HostPort> ParseHostPort(std::string_view address) {
  const std::string_view written = HostOf(address);
  if (written.empty() || written.size() == address.size()) return std::nullopt;
  const std::string_view host = WithoutBrackets(written);
  const bool bracketed = host.size() != written.size();
  if (host.empty() || host.find_first_of(bracketed ? "[]" : ":[]") != std::string_view::npos) {
    return std::nullopt;
  }
  const Result<int> port =
      ParseNumber<int>(address.substr(written.size() + 1), {.min = 0, .max = 65535});
  if (!port.ok()) return std::nullopt;
  return HostPort{std::string(host), *port};
}

bool IsHostPort(std::string_view address, int least_port) {
  const std::optional<HostPort> parsed = ParseHostPort(address);
  return parsed && parsed->port >= least_port;
}

std::string_view HostOf(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  const std::size_t bracket = address.rfind(']');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || bracket < colon);
  return has_port ? address.substr(0, colon) : address;
}

std::string WithPort(std::string_view address, int port) {
  return std::string(HostOf(address)) + ":" + std::to_string(port);
}

bool IsLoopback(std::string_view address) {
  const std::string_view host = HostOf(address);
  constexpr std::string_view kName = "localhost";
  if (host.size() == kName.size() && strncasecmp(host.data(), kName.data(), kName.size()) == 0) {
    return true;
  }
  const std::optional<Bytes> bytes = Numeric(address);
  if (!bytes) return false;
  if (IsMapped(*bytes)) return (*bytes)[12] == 127;
  Bytes one{};
  one[15] = 1;
  return *bytes == one;
}

bool IsWildcard(std::string_view address) {
  if (HostOf(address) == "*") return true;
  const std::optional<Bytes> bytes = Numeric(address);
  return bytes && (*bytes == Bytes{} || *bytes == kMapped);
}

std::vector<std::string> SplitAddresses(std::string_view text) {
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

Status CheckAddresses(std::string_view what, std::string_view text) {
  for (const std::string& address : SplitAddresses(text)) {
    if (IsHostPort(address, 1) || HasScheme(address)) continue;
    return InvalidArgument(std::string(what) + " '" + address +
                           "': expected host:port, such as 10.0.0.1:7700 or [2001:db8::1]:7700");
  }
  return OkStatus();
}

}  // namespace millrace
