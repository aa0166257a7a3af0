// The status of the service as JSON, as `millrace status --format json` prints it and a daemon's
// page reads it.
//
// Free functions; thread-safe.
#pragma once

#include <string>

#include "common/base/result.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace {

/// Fields have their names of the protocol, and are written even with their defaults. Numbers of 64
/// bits are strings. The text is on one line if `one_line` is true. Internal if the status cannot
/// be written, because a text in it is no UTF-8.
Result<std::string> StatusJson(const v1::ServiceStatus& status, bool one_line);

}  // namespace millrace
