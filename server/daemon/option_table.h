// The options of `millraced`, one row for each. Their flags, keys in the configuration file, help
// and checks all come from this table, and so does the output of --print-config.
//
// Immutable; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/parameters/member.h"
#include "common/parameters/parameter.h"
#include "common/system/host.h"
#include "server/daemon/options.h"

namespace millrace {

/// The value of an option that is not given.
struct OptionDefault {
  std::string shown;                                   // for the help
  std::function<std::string(const HostLimits&)> text;  // read like a given value; empty: not set
  // Whether an empty value is an error. For all other options, an empty value asks for the default.
  bool fixed = false;
};

struct Option {
  Parameter parameter;  // its name, with '_', is also the key in the configuration file
  std::vector<Role> roles;
  Member<DaemonOptions> member;
  OptionDefault otherwise;

  bool IsOf(Role role) const;
  /// For example "--batch-listen".
  std::string Flag() const;
  /// One line with the purpose, the bounds and the default.
  std::string Help() const;
  /// The value as a text that reads as the same value.
  std::string Print(const DaemonOptions& options) const {
    return PlainText(parameter, member.Get(options));
  }
};

const std::vector<Option>& OptionTable();

/// The key in the configuration file under which datasets are listed by id. Each flag --dataset
/// gives one dataset.
inline constexpr const char* kDatasetsKey = "datasets";
/// The key of plugins in the configuration file.
inline constexpr const char* kPluginsKey = "plugins";

}  // namespace millrace
