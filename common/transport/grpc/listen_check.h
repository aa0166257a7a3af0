// Finds out why a server cannot listen at an address. gRPC only says that it cannot.
#pragma once

#include <string>

#include "common/base/result.h"

namespace millrace {

/// Binds `listen` (host:port) for a moment, at every address of its host. InvalidArgument if it is
/// no address, or no address of this machine. AlreadyExists if the port is in use. PermissionDenied
/// if the process may not use the port.
Status CheckListen(const std::string& listen);

}  // namespace millrace
