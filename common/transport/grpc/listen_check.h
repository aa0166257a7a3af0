// Why a server could not listen where it is told to: gRPC says only that it could not.
#pragma once

#include <string>

#include "common/base/result.h"

namespace millrace {

/// Binds `listen` (host:port) for a moment, at every address of its host. InvalidArgument for an
/// address that is none or none of this machine's, AlreadyExists for a port in use,
/// PermissionDenied.
Status CheckListen(const std::string& listen);

}  // namespace millrace
