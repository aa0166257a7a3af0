// Reads a small file as a whole.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/result.h"

namespace millrace {

/// The bytes of a file. Errors as for ErrnoStatus and name the file; InvalidArgument if it is
/// larger than `most_bytes`.
Result<std::string> ReadTextFile(const std::string& path,
                                 std::size_t most_bytes = std::size_t{1} << 20);

}  // namespace millrace
