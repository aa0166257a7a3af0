#include "server/state/etcd/etcd_address.h"

#include "common/base/addresses.h"

namespace millrace {
namespace {

constexpr std::string_view kScheme = "etcd://";
constexpr std::string_view kTlsScheme = "etcds://";

}  // namespace

Result<EtcdAddress> ParseEtcdAddress(std::string_view text) {
  const Status error =
      InvalidArgument("expected etcd://host:port,host:port/prefix, or etcds:// for TLS, got '" +
                      std::string(text) + "'");
  EtcdAddress address;
  address.tls = text.starts_with(kTlsScheme);
  if (!address.tls && !text.starts_with(kScheme)) return error;
  std::string_view rest = text.substr(address.tls ? kTlsScheme.size() : kScheme.size());
  const std::size_t slash = rest.find('/');
  address.prefix = slash == std::string_view::npos ? "/millrace" : std::string(rest.substr(slash));
  rest = rest.substr(0, slash);
  if (address.prefix.size() < 2 || address.prefix.back() == '/') return error;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view endpoint = rest.substr(0, comma);
    if (!IsHostPort(endpoint, 1)) return error;
    address.endpoints.emplace_back(endpoint);
    if (comma == std::string_view::npos) return address;
    rest = rest.substr(comma + 1);
  }
}

}  // namespace millrace
