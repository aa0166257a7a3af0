// Reads one file of a dataset from end to end, checks every index in it, and makes the file's part
// of the index. Time and memory are bounded by a small multiple of the file's size, whatever its
// content.
//
// Thread-safe: there is no state except the arguments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/coq/scan/file_blob.h"

namespace millrace {

/// For every name: its place in the listing.
using NameTable = std::unordered_map<std::string_view, std::uint32_t>;

/// Scans the file `name` (at the place `self` of `names`) of the folder `dir` into `summary` and
/// `blob`. Fails with DataLoss, NotFound or PermissionDenied at the first error; the message has
/// the reason, and the byte if it is known, but not the file's name. References to nodes of other
/// files are stored in FileSummary::targets; the caller compares them with those files' node
/// counts.
Status ScanFile(const std::filesystem::path& dir, const std::string& name, std::uint32_t self,
                const NameTable& names, FileSummary& summary, FileBlob& blob);

}  // namespace millrace
