#include "server/plan/columns/kept_columns.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/protocol_limits.h"

namespace millrace {
namespace {

std::shared_ptr<const std::string> TextOf(std::span<const std::byte> bytes) {
  return std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()),
                                             bytes.size());
}

}  // namespace

std::shared_ptr<const MeasuredValues> KeptColumns::FindKept(const ColumnPlace& place) {
  {
    const std::string file = place.key.FileName();
    MutexLock lock(mutex_);
    folders_[file] = place.folders;
    const auto kept = in_memory_.find(file);
    if (kept != in_memory_.end()) return kept->second;
  }
  std::optional<MeasuredValues> found = FindColumn(place, *logger_);
  return found ? std::make_shared<const MeasuredValues>(*std::move(found)) : nullptr;
}

Result<MeasuredColumns> KeptColumns::Get(const ColumnRequest& request) {
  MeasuredColumns values;
  std::vector<std::string> missing;
  for (const MeasurableColumn& column : request.columns) {
    auto found = FindKept(PlaceOf(request, column.name));
    if (found == nullptr) {
      missing.push_back(column.name);
    } else {
      values[column.name] = std::move(found);
    }
  }
  if (missing.empty()) return values;
  MILLRACE_RETURN_IF_ERROR(CheckMeasurable(request, missing));
  return Unavailable(fmt::format("columns {} of dataset '{}' have to be measured first",
                                 fmt::join(missing, ", "), request.dataset_id));
}

std::vector<std::string> KeptColumns::Missing(const ColumnRequest& request) {
  std::vector<std::string> missing;
  for (const MeasurableColumn& column : request.columns) {
    if (!Has(PlaceOf(request, column.name))) missing.push_back(column.name);
  }
  std::sort(missing.begin(), missing.end());
  return missing;
}

void KeptColumns::Begin(const ColumnPlace& place) {
  const std::string file = place.key.FileName();
  MutexLock lock(mutex_);
  if (begun_.contains(file)) return;
  begun_.emplace(file, Begun{place.folders, PartialColumn::Open(place, logger_)});
}

std::vector<std::uint64_t> KeptColumns::Measured(const ColumnKey& key) const {
  std::vector<std::uint64_t> ranges;
  MutexLock lock(mutex_);
  const auto begun = begun_.find(key.FileName());
  if (begun == begun_.end()) return ranges;
  const PartialColumn& column = begun->second.column;
  for (std::uint64_t first = 0; first < column.examples(); first += kMeasuredRange) {
    if (column.Has(first)) ranges.push_back(first);
  }
  return ranges;
}

Status KeptColumns::Put(const ColumnKey& key, std::uint64_t first, const MeasuredValues& values) {
  MutexLock lock(mutex_);
  const auto begun = begun_.find(key.FileName());
  return begun == begun_.end() ? OkStatus() : begun->second.column.Put(first, values);
}

Status KeptColumns::Finish(const ColumnKey& key) {
  const std::string name = key.FileName();
  MutexLock lock(mutex_);
  const auto begun = begun_.find(name);
  if (begun == begun_.end()) return OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(MeasuredValues values, begun->second.column.Values());
  const Status kept = KeepColumn(begun->second.folders, key, values);
  if (kept.ok()) {
    begun->second.column.RemoveFile();
  } else {
    logger_->Warning(
        "a measured column cannot be written; it stays in memory, and the next process measures "
        "it again",
        {{"column", key.name}, {"why", kept}});
    in_memory_[name] = std::make_shared<const MeasuredValues>(std::move(values));
  }
  folders_[name] = begun->second.folders;
  begun_.erase(begun);
  return OkStatus();
}

void KeptColumns::Abandon(const ColumnKey& key) {
  MutexLock lock(mutex_);
  begun_.erase(key.FileName());
}

Result<std::shared_ptr<const std::string>> KeptColumns::Encoded(const ColumnKey& key) const {
  std::vector<std::filesystem::path> folders;
  std::shared_ptr<const MeasuredValues> values;
  {
    MutexLock lock(mutex_);
    const auto known = folders_.find(key.FileName());
    if (known != folders_.end()) folders = known->second;
    const auto kept = in_memory_.find(key.FileName());
    if (kept != in_memory_.end()) values = kept->second;
  }
  if (values != nullptr) return TextOf(EncodeColumn(key, *values));
  for (const std::filesystem::path& folder : folders) {
    const Result<MeasuredValues> found = ReadColumn(folder, key);
    if (found.ok()) return TextOf(EncodeColumn(key, *found));
  }
  return NotFound(
      fmt::format("column {} of dataset {} is not kept here", key.name, key.dataset.ToHex()));
}

}  // namespace millrace
