#include "server/pipeline/columns/column_folders.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {

ColumnKey KeyOf(const ColumnRequest& request, const std::string& name) {
  return {request.source->data_digest(), request.operations, name};
}

std::optional<MeasuredValues> FindColumn(const ColumnRequest& request, const std::string& name,
                                         Logger& logger) {
  for (const std::filesystem::path& folder : request.folders) {
    Result<MeasuredValues> found = ReadColumn(folder, KeyOf(request, name));
    if (found.ok() && found->size() == request.source->examples()) return *std::move(found);
    if (found.status().code() == StatusCode::kNotFound) continue;
    logger.Warning("a measured column cannot be read; it is measured again",
                   {{"dataset", request.dataset_id}, {"column", name}, {"why", found.status()}});
  }
  return std::nullopt;
}

Status KeepColumn(const std::vector<std::filesystem::path>& folders, const ColumnKey& key,
                  const MeasuredValues& values) {
  Status written = NotFound("there is no folder for it");
  for (const std::filesystem::path& folder : folders) {
    written = WriteColumn(folder, key, values);
    if (written.ok()) break;
  }
  return written;
}

Status CheckMeasurable(const ColumnRequest& request, const std::vector<std::string>& missing) {
  if (request.excluded_files.empty() || missing.empty()) return OkStatus();
  return FailedPrecondition(fmt::format(
      "exclude.files: the columns {} of dataset '{}' were not measured while these files were "
      "good: {}; measure them with whole files first, or do without the columns",
      fmt::join(missing, ", "), request.dataset_id, fmt::join(request.excluded_files, ", ")));
}

}  // namespace millrace
