#include "server/files/damaged_files.h"

#include <string>
#include <vector>

#include <fmt/core.h>

#include "server/yaml/yaml_writer.h"

namespace millrace {

Status DamagedFilesStatus(const std::string& dataset, const std::string& what,
                          std::span<const std::string> excluded,
                          std::span<const std::string> needed) {
  std::vector<std::string> files(excluded.begin(), excluded.end());
  files.insert(files.end(), needed.begin(), needed.end());
  return DataLoss(fmt::format(
      "dataset '{}' has damaged files ({}); put them back and restart the workers that had them "
      "open; or, to go on without their examples, write `exclude: {{files: {}}}`",
      dataset, what, YamlList(files)));
}

Status DamagedIndexStatus(const std::string& dataset, const DamagedFile& index) {
  return DataLoss(fmt::format(
      "the index of dataset '{}' is damaged ({}: {}); restart the processes that use it; they "
      "build a new one if necessary",
      dataset, index.name, index.what));
}

}  // namespace millrace
