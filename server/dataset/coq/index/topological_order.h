// The order of a dataset's files.
//
// Thread-safe: no state but the arguments.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace {

/// A file to be ordered.
struct OrderedFile {
  std::uint64_t size = 0;
  std::string_view name;
  std::span<const std::uint32_t> dependencies;  // places in the list of files; others are ignored
};

struct TopologicalOrder {
  std::vector<std::uint32_t> order;  // places in the list of files
  /// Files on a cycle of dependencies or between two of them; those that only depend on one, and so
  /// are not in `order` either, are left out.
  std::vector<std::uint32_t> cyclic;
};

/// Takes, among the files whose dependencies are all placed, the one with the smallest (size,
/// name), names compared by NameLess, until none is left. A file's dependency on itself counts only
/// where it is not the first of its dependencies. O(n log n + dependencies).
TopologicalOrder OrderFiles(std::span<const OrderedFile> files);

}  // namespace millrace
