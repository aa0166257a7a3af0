// The options of `millraced`, one row for each. Their flags, keys in the configuration file, help
// and checks all come from this table, and so does the output of --print-config.
//
// Immutable; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/system/host.h"
#include "server/daemon/option_value.h"
#include "server/daemon/options.h"

namespace millrace {

/// The value of an option that nobody gives.
struct OptionDefault {
  std::string shown;                                   // for the help
  std::function<std::string(const HostLimits&)> text;  // read like a given value; empty: not set
  // Whether an empty value is an error. For all other options, an empty value asks for the default.
  bool fixed = false;
};

struct Option {
  std::string name;  // also its key in the configuration file; with '_'
  std::vector<Role> roles;
  OptionValue value;
  OptionDefault otherwise;
  std::string help;

  bool IsOf(Role role) const;
  /// For example "--batch-listen".
  std::string Flag() const;
  /// One line with the purpose, the bounds and the default.
  std::string Help() const;
};

const std::vector<Option>& OptionTable();

/// The key in the configuration file under which datasets are listed by id. Each flag --dataset
/// gives one dataset.
inline constexpr const char* kDatasetsKey = "datasets";
/// The key of plugins there.
inline constexpr const char* kPluginsKey = "plugins";

}  // namespace millrace
