#include "server/dataset/damaged_files.h"

#include <fmt/core.h>

namespace millrace {

Status DamagedFilesStatus(const std::string& dataset, const std::string& what,
                          std::span<const std::string> excluded,
                          std::span<const std::string> needed) {
  std::string line;
  for (const std::span<const std::string> files : {excluded, needed}) {
    for (const std::string& file : files) {
      line += fmt::format("{}\"{}\"", line.empty() ? "" : ", ", file);
    }
  }
  return DataLoss(fmt::format(
      "dataset '{}' has damaged files ({}); put them back and restart the workers that had them "
      "open; or, to go on without their examples, write `exclude: "
      "{{files: [{}]}}`",
      dataset, what, line));
}

Status DamagedIndexStatus(const std::string& dataset, const DamagedFile& index) {
  return DataLoss(fmt::format(
      "the index of dataset '{}' is damaged ({}: {}); restart what uses it, which builds "
      "a new one where that is needed",
      dataset, index.name, index.what));
}

}  // namespace millrace
