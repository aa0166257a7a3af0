// Turns an error of the operating system into a Status.
#pragma once

#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// `what` and the system's text for `error` (an errno). The code is NotFound, InvalidArgument (a
/// folder in place of a file), PermissionDenied, ResourceExhausted (disk, memory or descriptors) or
/// Unavailable.
Status ErrnoStatus(std::string_view what, int error);

}  // namespace millrace
