// Asks a port for its health, as probes do: grpc.health.v1, without encryption.
#pragma once

#include <string>

#include "common/base/result.h"

namespace millrace {

/// Ok if `service` is SERVING at `address` (HOST:PORT). Errors: kNotFound if the port has no such
/// service, kUnavailable if it is not serving, and errors of a call that gets no answer.
Status CheckHealth(const std::string& address, const std::string& service, double timeout_seconds);

}  // namespace millrace
