// A row for each option of a session: its name, its bounds, its purpose, and its flag. The command
// line and Python ask this table, so that both refuse the same values in the same words.
//
// The table is immutable; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/session_options.h"
#include "common/base/result.h"
#include "common/parameters/member.h"
#include "common/parameters/parameter.h"

namespace millrace {

/// One row of the table. SessionOptions has the default.
struct SessionOption {
  Parameter parameter;  // the name is Python's keyword, and what messages call it
  Member<SessionOptions> member;
  /// The flag of `millrace consume`; empty if there is none. If an option is on by default, its
  /// flag turns it off.
  std::string flag = {};
  std::string type_name = {};  // name of the flag's value in the help
  bool keyword = false;        // whether Python's connect takes it unchanged

  /// InvalidArgument "NAME: expected …, got …" if the parameter does not take the value; nothing
  /// changes then.
  Status Set(const ParamValue& value, SessionOptions& options) const;
};

const std::vector<SessionOption>& SessionOptionTable();
/// The row of that name. REQUIRES: there is one.
const SessionOption& FindSessionOption(std::string_view name);

}  // namespace millrace
