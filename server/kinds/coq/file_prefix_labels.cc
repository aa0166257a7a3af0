#include "server/kinds/coq/file_prefix_labels.h"

#include <string_view>

#include <fmt/core.h>

#include "server/source/file_labels.h"

namespace millrace {

Result<std::vector<std::uint32_t>> FilePrefixLabels(const DatasetIndex& index,
                                                    const SplitOptions& options) {
  std::vector<std::string_view> names;
  for (const FileRecord& file : index.files()) names.push_back(index.string(file.name));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> labels, LabelsOfFiles(names, options));
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
