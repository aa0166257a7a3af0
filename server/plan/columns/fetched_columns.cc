#include "server/plan/columns/fetched_columns.h"

#include <optional>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "server/plan/columns/column_folders.h"

namespace millrace {

Result<MeasuredColumns> FetchedColumns::Get(const ColumnRequest& request) {
  MeasuredColumns values;
  for (const MeasurableColumn& column : request.columns) {
    std::optional<MeasuredValues> found = FindColumn(PlaceOf(request, column.name), *logger_);
    if (!found) {
      Result<MeasuredValues> fetched = FetchOne(request, column.name);
      if (!fetched.ok()) {
        return Unavailable(fmt::format("column {} of dataset '{}' cannot be fetched: {}",
                                       column.name, request.dataset_id,
                                       fetched.status().message()));
      }
      found = *std::move(fetched);
    }
    values[column.name] = std::make_shared<const MeasuredValues>(*std::move(found));
  }
  return values;
}

Result<MeasuredValues> FetchedColumns::FetchOne(const ColumnRequest& request,
                                                const std::string& name) const {
  const ColumnKey key = KeyOf(request, name);
  MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, fetch_(key));
  MILLRACE_ASSIGN_OR_RETURN(MeasuredValues values,
                            DecodeColumn(std::as_bytes(std::span(bytes)), key));
  const ColumnPlace place = PlaceOf(request, name);
  MILLRACE_RETURN_IF_ERROR(CheckForm(values, place.type, place.examples));
  const Status kept = KeepColumn(request.folders, key, values);
  if (kept.ok()) {
    logger_->Info("fetched a measured column",
                  {{"dataset", request.dataset_id}, {"column", name}, {"examples", values.size()}});
  } else {
    logger_->Warning("a measured column cannot be kept; the next process fetches it again",
                     {{"dataset", request.dataset_id}, {"column", name}, {"why", kept}});
  }
  return values;
}

}  // namespace millrace
