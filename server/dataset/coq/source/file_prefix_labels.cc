#include "server/dataset/coq/source/file_prefix_labels.h"

#include <fmt/core.h>

namespace millrace {

Result<std::vector<std::uint32_t>> FilePrefixLabels(const DatasetIndex& index,
                                                    const SplitOptions& options) {
  std::vector<std::uint32_t> labels(index.files().size(), 0);
  for (std::size_t list = 0; list < options.prefixes.size(); ++list) {
    for (const std::string& prefix : options.prefixes[list]) {
      bool matched = false;
      for (std::size_t file = 0; file < labels.size(); ++file) {
        if (!index.string(index.files()[file].name).starts_with(prefix)) continue;
        matched = true;
        labels[file] = static_cast<std::uint32_t>(list + 1);
      }
      if (!matched) {
        return InvalidArgument(fmt::format(
            "split.prefixes: no file's name starts with '{}' (list {}): check it against the names "
            "that `millrace inspect` prints",
            prefix, list + 1));
      }
    }
  }
  for (std::size_t file = 0; file < labels.size(); ++file) {
    const Slice dependencies = index.files()[file].dependencies;
    for (const std::uint32_t other :
         index.dependency_files().subspan(dependencies.first, dependencies.count)) {
      if (labels[other] > labels[file]) {
        return InvalidArgument(
            fmt::format("split.prefixes: file '{}' (label {}) depends on '{}' (label {}): a file "
                        "must not depend "
                        "on one of a higher label",
                        index.string(index.files()[file].name), labels[file],
                        index.string(index.files()[other].name), labels[other]));
      }
    }
  }
  return labels;
}

}  // namespace millrace
