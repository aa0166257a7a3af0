// The columns in the folders beside a dataset's index, as every provider of columns uses them.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "server/plan/columns/column_provider.h"
#include "server/source/column_file.h"

namespace millrace {

/// Where a column is kept, and its known facts.
struct ColumnPlace {
  std::string dataset_id;  // for people
  ColumnKey key;
  MeasuredType type = MeasuredType::kCount;
  std::uint64_t examples = 0;  // of the source
  std::vector<std::filesystem::path> folders;
};

/// The key of one column of a request.
ColumnKey KeyOf(const ColumnRequest& request, const std::string& name);
/// The place of one column of a request. REQUIRES: the request has it.
ColumnPlace PlaceOf(const ColumnRequest& request, const std::string& name);

/// OK if the values fit a column of this type and number of examples. DataLoss otherwise.
Status CheckForm(const MeasuredValues& values, MeasuredType type, std::uint64_t examples);

/// The column from the first folder that has it. A file that cannot be read, or has values of
/// another type or number, is logged and counts as missing.
std::optional<MeasuredValues> FindColumn(const ColumnPlace& place, Logger& logger);

/// Writes a column into the first of the folders that can be written. If no folder can be written,
/// the error of the last one.
Status KeepColumn(const std::vector<std::filesystem::path>& folders, const ColumnKey& key,
                  const MeasuredValues& values);

/// FailedPrecondition that names the files if a request excludes some: columns that are not
/// measured yet cannot be measured without them.
Status CheckMeasurable(const ColumnRequest& request, const std::vector<std::string>& missing);

}  // namespace millrace
