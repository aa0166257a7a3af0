#include "server/state/etcd/etcd_address.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr std::string_view kScheme = "etcd://";

bool IsEndpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) return false;
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(colon) + 1, text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<EtcdAddress> ParseEtcdAddress(std::string_view text) {
  const Status error = InvalidArgument("expected etcd://host:port,host:port/prefix, got '" +
                                       std::string(text) + "'");
  if (text.substr(0, kScheme.size()) != kScheme) return error;
  std::string_view rest = text.substr(kScheme.size());
  EtcdAddress address;
  const std::size_t slash = rest.find('/');
  address.prefix = slash == std::string_view::npos ? "/millrace" : std::string(rest.substr(slash));
  rest = rest.substr(0, slash);
  if (address.prefix.size() < 2 || address.prefix.back() == '/') return error;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view endpoint = rest.substr(0, comma);
    if (!IsEndpoint(endpoint)) return error;
    address.endpoints.emplace_back(endpoint);
    if (comma == std::string_view::npos) return address;
    rest = rest.substr(comma + 1);
  }
}

}  // namespace millrace
