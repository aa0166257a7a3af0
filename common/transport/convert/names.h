// Enumerations that the wire carries by name.
//
// Free functions; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// The value that `find` returns for `name`. Unimplemented if it returns nullopt. `what` is the
/// kind of value, for the message.
template <class Enum>
Result<Enum> ByName(const char* what, const std::string& name,
                    std::optional<Enum> (*find)(std::string_view)) {
  if (const std::optional<Enum> value = find(name)) return *value;
  return Unimplemented(std::string("a ") + what + " named '" + name +
                       "', which this program does not know: are the servers newer than it?");
}

}  // namespace millrace
