// The address of a state in etcd: etcd://host:port,host:port/prefix, or etcds:// for TLS.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace millrace {

struct EtcdAddress {
  std::vector<std::string> endpoints;  // host:port
  std::string prefix;                  // begins every key; has a leading '/': "/millrace"
  bool tls = false;                    // etcds://
};

/// InvalidArgument says what is expected. If there is no prefix, it is /millrace.
Result<EtcdAddress> ParseEtcdAddress(std::string_view text);

}  // namespace millrace
