// Detects whether a file has changed without reading it.
#pragma once

#include <string>

namespace millrace {

/// The file's inode, size and time as a text; "none" if there is no such file. Follows links, as
/// Kubernetes makes them for mounted secrets.
std::string FileSnapshot(const std::string& path);

}  // namespace millrace
