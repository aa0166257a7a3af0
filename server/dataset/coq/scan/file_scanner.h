// Reads one file of a dataset from end to end, checks every index in it, and makes the file's part
// of the index. Time and memory are bounded by a small multiple of the file's size, whatever it
// holds.
//
// Thread-safe: no state but the arguments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/coq/scan/file_blob.h"

namespace millrace {

/// Place in the listing of every name.
using NameTable = std::unordered_map<std::string_view, std::uint32_t>;

/// Scans the file `name` (place `self` of `names`) of the folder `dir` into `summary` and `blob`.
/// DataLoss, NotFound or PermissionDenied with the reason, and the byte where known, of the first
/// thing that is wrong; the name is left to the caller. References to nodes of other files are left
/// as FileSummary::targets, to be compared with those files' node counts.
Status ScanFile(const std::filesystem::path& dir, const std::string& name, std::uint32_t self,
                const NameTable& names, FileSummary& summary, FileBlob& blob);

}  // namespace millrace
