// Where a state in etcd lies: etcd://host:port,host:port/prefix.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace millrace {

struct EtcdAddress {
  std::vector<std::string> endpoints;  // host:port
  std::string prefix;                  // of all keys, with a '/' before it: "/millrace"
};

/// InvalidArgument, saying what is expected. Without a prefix it is /millrace.
Result<EtcdAddress> ParseEtcdAddress(std::string_view text);

}  // namespace millrace
