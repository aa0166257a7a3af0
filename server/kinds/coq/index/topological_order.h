// The order of a dataset's files.
//
// Thread-safe: there is no state except the arguments.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace {

/// A file to be put in order.
struct OrderedFile {
  std::uint64_t size = 0;
  std::string_view name;
  std::span<const std::uint32_t> dependencies;  // places in the list of files; others are ignored
};

struct TopologicalOrder {
  std::vector<std::uint32_t> order;  // places in the list of files
  /// Files on a cycle of dependencies, or between two cycles. Files that only depend on a cycle are
  /// not listed here, and they are not in `order` either.
  std::vector<std::uint32_t> cyclic;
};

/// Repeats until no file is left: takes the file with the smallest (size, name) among the files
/// whose dependencies all have their places. Names are compared by NameLess. A file's dependency on
/// itself is ignored if it is the first of its dependencies. O(n log n + dependencies).
TopologicalOrder OrderFiles(std::span<const OrderedFile> files);

}  // namespace millrace
