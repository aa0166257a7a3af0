// What the operating system says went wrong, as a Status.
#pragma once

#include <string_view>

#include "common/base/result.h"

namespace millrace {

/// `what`, and what the system says about `error` (an errno): NotFound, InvalidArgument (a folder
/// where a file is asked for), PermissionDenied, ResourceExhausted (disk, memory, descriptors) or
/// Unavailable.
Status ErrnoStatus(std::string_view what, int error);

}  // namespace millrace
