#include "server/plan/columns/column_folders.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {

ColumnKey KeyOf(const ColumnRequest& request, const std::string& name) {
  return {request.source->data_digest(), request.operations, name};
}

ColumnPlace PlaceOf(const ColumnRequest& request, const std::string& name) {
  const auto column = std::find_if(request.columns.begin(), request.columns.end(),
                                   [&](const MeasurableColumn& one) { return one.name == name; });
  return {request.dataset_id, KeyOf(request, name), column->type, request.source->examples(),
          request.folders};
}

Status CheckForm(const MeasuredValues& values, MeasuredType type, std::uint64_t examples) {
  if (values.size() != examples) {
    return DataLoss(
        fmt::format("it has {} values, and its source {} examples", values.size(), examples));
  }
  if (values.type() != type) {
    return DataLoss(fmt::format("it has values of type {}: expected {}",
                                static_cast<unsigned>(values.type()), static_cast<unsigned>(type)));
  }
  return OkStatus();
}

std::optional<MeasuredValues> FindColumn(const ColumnPlace& place, Logger& logger) {
  for (const std::filesystem::path& folder : place.folders) {
    Result<MeasuredValues> found = ReadColumn(folder, place.key);
    if (found.status().code() == StatusCode::kNotFound) continue;
    const Status fits = found.ok() ? CheckForm(*found, place.type, place.examples) : found.status();
    if (fits.ok()) return *std::move(found);
    logger.Warning("a measured column cannot be read; it is measured again",
                   {{"dataset", place.dataset_id}, {"column", place.key.name}, {"why", fits}});
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
