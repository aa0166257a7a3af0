// The folder for indexes and columns of datasets whose own folders cannot be written.
//
// Free functions; thread-safe.
#pragma once

#include <filesystem>

namespace millrace {

/// $XDG_CACHE_HOME/millrace, or ~/.cache/millrace. Empty if neither variable is set.
std::filesystem::path DefaultCacheDir();

}  // namespace millrace
