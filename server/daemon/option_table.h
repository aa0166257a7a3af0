// The options of `millraced`, one row each: flags, keys of the configuration file, help, checks and
// what --print-config prints all come from it.
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

/// What holds if nobody gives an option.
struct OptionDefault {
  std::string shown;                                   // for help
  std::function<std::string(const HostLimits&)> text;  // read as if given; empty: not set
  bool fixed = false;  // an empty text is wrong then; for all others it asks for the default
};

struct Option {
  std::string name;  // key of the configuration file, with '_'
  std::vector<Role> roles;
  OptionValue value;
  OptionDefault otherwise;
  std::string help;

  bool IsOf(Role role) const;
  /// "--batch-listen".
  std::string Flag() const;
  /// In one line: what it is for, its bounds and its default.
  std::string Help() const;
};

const std::vector<Option>& OptionTable();

/// The key of the configuration file that has the datasets, by id; the flag --dataset has one each.
inline constexpr const char* kDatasetsKey = "datasets";

}  // namespace millrace
