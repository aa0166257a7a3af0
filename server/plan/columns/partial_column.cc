#include "server/plan/columns/partial_column.h"

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "common/base/protocol_limits.h"
#include "server/files/number_bytes.h"
#include "server/plan/columns/column_record.h"

namespace millrace {
namespace {

constexpr std::string_view kPartialMagic = "MRCOLPRT";
constexpr std::uint32_t kPartialVersion = 1;

std::vector<std::byte> PartialHeader(const ColumnKey& key, std::uint64_t examples) {
  std::vector<std::byte> out;
  PutText(out, kPartialMagic);
  PutNumber(out, kPartialVersion);
  PutNumber(out, static_cast<std::uint32_t>(key.name.size()));
  PutNumber(out, examples);
  PutText(out, std::string_view(key.dataset.ToBytes()));
  PutText(out, std::string_view(key.operations.ToBytes()));
  PutText(out, key.name);
  return out;
}

std::size_t RangesOf(std::uint64_t examples) {
  return (examples + kMeasuredRange - 1) / kMeasuredRange;
}

}  // namespace

PartialColumn::PartialColumn(const ColumnPlace& place, std::shared_ptr<Logger> logger)
    : key_(place.key),
      type_(place.type),
      examples_(place.examples),
      logger_(std::move(logger)),
      ranges_(RangesOf(examples_)),
      stored_(examples_),
      present_(type_ == MeasuredType::kCount ? 0 : (examples_ + 7) / 8) {}

std::filesystem::path PartialColumn::FileIn(const std::filesystem::path& folder,
                                            const ColumnKey& key) {
  return folder / (key.FileName() + ".part");
}

PartialColumn PartialColumn::Open(const ColumnPlace& place, std::shared_ptr<Logger> logger) {
  PartialColumn column(place, std::move(logger));
  for (const std::filesystem::path& folder : place.folders) {
    if (column.GoOn(FileIn(folder, column.key_)).ok()) return column;
  }
  Status made = NotFound("there is no folder for it");
  for (const std::filesystem::path& folder : place.folders) {
    made = column.Create(FileIn(folder, column.key_));
    if (made.ok()) return column;
  }
  column.logger_->Warning(
      "what is measured of a column cannot be kept on disk; a dispatcher that begins again "
      "measures it again",
      {{"column", column.key_.name}, {"why", made}});
  return column;
}

Status PartialColumn::Create(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  MILLRACE_ASSIGN_OR_RETURN(FileDescriptor file, ReplaceFile(path));
  const std::vector<std::byte> header = PartialHeader(key_, examples_);
  MILLRACE_RETURN_IF_ERROR(WriteAt(file, header, 0));
  file_ = std::move(file);
  path_ = path;
  end_ = header.size();
  return OkStatus();
}

Status PartialColumn::GoOn(const std::filesystem::path& path) {
  MILLRACE_ASSIGN_OR_RETURN(FileDescriptor file, OpenFile(path, O_RDWR));
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return Unavailable(error.message());
  std::vector<std::byte> bytes(size);
  MILLRACE_RETURN_IF_ERROR(ReadAt(file, bytes, 0));
  const std::vector<std::byte> header = PartialHeader(key_, examples_);
  if (size < header.size() || !std::equal(header.begin(), header.end(), bytes.begin())) {
    return DataLoss("the file is of another column or version");
  }
  std::span<const std::byte> in = std::span<const std::byte>(bytes).subspan(header.size());
  while (!in.empty()) {
    const Result<ColumnRecord> record = TakeRecord(in);
    if (!record.ok()) break;  // it is written over
    const Status taken = Put(record->first, record->values);
    if (!taken.ok()) return taken;
  }
  file_ = std::move(file);
  path_ = path;
  end_ = size - in.size();
  return OkStatus();
}

Status PartialColumn::Put(std::uint64_t first, const MeasuredValues& values) {
  const std::uint64_t count =
      first < examples_ ? std::min(kMeasuredRange, examples_ - first) : std::uint64_t{0};
  if (first % kMeasuredRange != 0 || count == 0 || values.size() != count) {
    return InvalidArgument(
        fmt::format("{} values of column {} at example {} of {}: expected those of a range of {}",
                    values.size(), key_.name, first, examples_, kMeasuredRange));
  }
  if (values.type() != type_) {
    return InvalidArgument(fmt::format("values of type {} of column {}: expected {}",
                                       static_cast<unsigned>(values.type()), key_.name,
                                       static_cast<unsigned>(type_)));
  }
  if (Has(first)) return OkStatus();
  Take(first, values);
  if (file_.get() < 0) return OkStatus();
  const std::vector<std::byte> record = EncodeRecord({first, values});
  const Status written = WriteAt(file_, record, end_);
  end_ += record.size();
  if (written.ok()) return OkStatus();
  file_.Close();
  logger_->Warning(
      "what is measured of a column is not written to disk any more; measuring goes on in memory",
      {{"file", path_.string()}, {"why", written}});
  return OkStatus();
}

void PartialColumn::Take(std::uint64_t first, const MeasuredValues& values) {
  if (values.width() > width_) Widen(values.width());
  Store(first, values.bytes(), values.width());
  // Ranges begin at whole bytes of bits.
  std::copy(values.present().begin(), values.present().end(),
            present_.begin() + static_cast<std::ptrdiff_t>(first / 8));
  ranges_[first / kMeasuredRange] = true;
  measured_ += values.size();
}

void PartialColumn::Store(std::uint64_t first, std::span<const std::uint8_t> values,
                          unsigned width) {
  for (std::uint64_t i = 0; i < values.size() / width; ++i) {
    const std::uint8_t* const from = values.data() + i * width;
    std::uint8_t* const to = stored_.data() + (first + i) * width_;
    const bool negative = type_ == MeasuredType::kInt64 && from[width - 1] >> 7 != 0;
    std::fill(std::copy_n(from, width, to), to + width_, negative ? 0xff : 0);
  }
}

void PartialColumn::Widen(unsigned width) {
  const std::vector<std::uint8_t> narrow = std::move(stored_);
  const unsigned before = std::exchange(width_, width);
  stored_.assign(examples_ * width, 0);
  Store(0, narrow, before);
}

bool PartialColumn::Has(std::uint64_t first) const { return ranges_[first / kMeasuredRange]; }

Result<MeasuredValues> PartialColumn::Values() const {
  if (measured_ != examples_) {
    return FailedPrecondition(
        fmt::format("{} of {} values of column {} are measured", measured_, examples_, key_.name));
  }
  // Floats have one width, and without ranges none was met.
  const unsigned width = examples_ == 0 && type_ == MeasuredType::kFloat32 ? 4 : width_;
  return MeasuredValues::FromBytes(stored_, width, type_, present_);
}

void PartialColumn::RemoveFile() {
  file_.Close();
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace millrace
