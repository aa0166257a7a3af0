// Messages to the service manager that started a daemon, such as systemd with Type=notify.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// Sends lines such as "READY=1" (see sd_notify(3)) to the socket that the environment variable
/// NOTIFY_SOCKET names. Does nothing without this variable: then no service manager listens.
Status TellServiceManager(std::string_view lines);

/// The lines for TellServiceManager when the daemon begins to stop. They ask for as much time as a
/// daemon with `grace_seconds` may take, whatever the service manager's own limit is.
std::string StoppingNotice(double grace_seconds);

}  // namespace millrace
