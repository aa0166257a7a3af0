#include "server/source/file_labels.h"

#include <string>

#include <fmt/core.h>

namespace millrace {

Result<std::vector<std::uint32_t>> LabelsOfFiles(std::span<const std::string_view> names,
                                                 const SplitOptions& options) {
  std::vector<std::uint32_t> labels(names.size(), 0);
  for (std::size_t list = 0; list < options.prefixes.size(); ++list) {
    for (const std::string& prefix : options.prefixes[list]) {
      bool matched = false;
      for (std::size_t file = 0; file < labels.size(); ++file) {
        if (!names[file].starts_with(prefix)) continue;
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
  return labels;
}

}  // namespace millrace
