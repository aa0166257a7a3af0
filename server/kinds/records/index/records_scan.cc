#include "server/kinds/records/index/records_scan.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "server/files/index_place.h"
#include "server/kinds/records/format/example_parser.h"

namespace millrace {
namespace {

/// A file is hashed, and its progress told, in pieces of at least this size, while they are in the
/// processor's cache.
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

bool AreDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

char AsciiLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Whether a name, in small letters, is of what often lies beside records and is named like them:
/// copies that are not in use, indexes, checksums, texts.
bool IsBesideRecords(std::string_view name) {
  constexpr std::array<std::string_view, 14> kEndings = {
      "~",     ".tmp",    ".part", ".bak",  ".idx", ".index", ".md5",
      ".sha1", ".sha256", ".crc",  ".json", ".txt", ".md",    ".csv"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [name](std::string_view ending) { return name.ends_with(ending); });
}

/// Counts the features of records.
class FeatureCounter {
 public:
  /// False if the data are no tf.train.Example.
  bool Add(std::span<const std::byte> data) {
    if (!lister_.Parse(data) || lister_.is_sequence()) return false;
    for (const ExampleLister::Feature& feature : lister_.features()) {
      const auto found = counts_.find(feature.name);
      FeatureCounts& counts = found != counts_.end()
                                  ? found->second
                                  : counts_.emplace(feature.name, FeatureCounts{}).first->second;
      counts.bytes += feature.kind == FeatureKind::kBytes ? 1 : 0;
      counts.floats += feature.kind == FeatureKind::kFloat ? 1 : 0;
      counts.integers += feature.kind == FeatureKind::kInt64 ? 1 : 0;
    }
    return true;
  }

  std::vector<FeatureCounts> Take() {
    std::vector<FeatureCounts> all;
    for (auto& [name, counts] : counts_) {
      if (counts.records() == 0) continue;
      counts.name = name;
      all.push_back(std::move(counts));
    }
    return all;
  }

 private:
  std::map<std::string, FeatureCounts, std::less<>> counts_;
  ExampleLister lister_;
};

}  // namespace

bool IsRecordsFile(std::string_view last) {
  std::string name(last);
  std::transform(name.begin(), name.end(), name.begin(), AsciiLower);
  if (IsHidden(name) || IsBesideRecords(name)) return false;
  if (name.find("tfrecord") != std::string::npos || name.ends_with(".tfrec")) return true;
  constexpr std::string_view kOf = "-of-";
  const std::size_t of = last.rfind(kOf);
  if (of == std::string_view::npos || !AreDigits(last.substr(of + kOf.size()))) return false;
  const std::size_t dash = last.rfind('-', of - 1);
  return of > 0 && dash != std::string_view::npos &&
         AreDigits(last.substr(dash + 1, of - dash - 1));
}

bool IsRecordsFileOrImport(std::string_view last) {
  return last == kUnfinishedImport || IsRecordsFile(last);
}

Result<DatasetListing> ListRecords(const std::filesystem::path& dir) {
  MILLRACE_ASSIGN_OR_RETURN(DatasetListing listing,
                            ListDataset(dir, IsRecordsFileOrImport,
                                        "file of records (*tfrecord*, *.tfrec, *-NNNNN-of-NNNNN)"));
  for (const std::string& name : listing.names) {
    const std::filesystem::path journal = dir / name;
    if (journal.filename() != kUnfinishedImport) continue;
    return FailedPrecondition(fmt::format(
        "the import into {} has not ended: run the same `millrace import` again to go on after the "
        "last whole shard ({} has its arguments), or remove the folder",
        journal.parent_path().string(), kUnfinishedImport));
  }
  return OrderedByBytes(std::move(listing));
}

std::string DescribeFault(std::uint64_t record, RecordFault fault) {
  return fmt::format("record {}: {}", record, Describe(fault));
}

Result<ScannedRecords> ScanRecords(const std::filesystem::path& dir, const std::string& name,
                                   const FileIdentity& identity, const std::stop_token& stop,
                                   const std::function<void(std::uint64_t)>& progress) {
  ScannedRecords scanned;
  RecordsFile& file = scanned.file;
  file.file = {name, identity.size, {}, identity};
  Xxh3Stream hash;
  if (identity.size == 0) {
    file.file.digest = hash.Finish();
    return scanned;
  }
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile mapped,
                            MappedFile::Open(dir / name, AccessPattern::kSequential));
  file.file.size = mapped.identity().size;
  file.file.identity = mapped.identity();
  const std::span<const std::byte> bytes = mapped.bytes();
  FeatureCounter features;
  Xxh3Stream frames;
  DamagedRecords damage;
  std::uint64_t hashed = 0;
  for (std::uint64_t offset = 0; offset < bytes.size();) {
    FramedRecord record = ReadRecord(bytes, offset);
    if (record.fault != RecordFault::kSound) {
      MILLRACE_RETURN_IF_ERROR(mapped.CheckIntact());
      if (damage.first.empty()) {
        damage.first =
            fmt::format("at byte {}: {}", offset, DescribeFault(file.records, record.fault));
      }
      if (record.fault != RecordFault::kDataChecksum) return DataLoss(damage.first);
      ++damage.count;
      record = ReadRecord(bytes, offset, /*check_data=*/false);
    } else if (!features.Add(record.data)) {
      ++file.others;
    }
    if (file.records % RecordsIndex::kStride == 0) scanned.offsets.push_back(offset);
    frames.Update(bytes.subspan(offset, kRecordHeaderBytes));
    frames.Update(bytes.subspan(record.next - kRecordFooterBytes, kRecordFooterBytes));
    file.largest = std::max<std::uint64_t>(file.largest, record.data.size());
    ++file.records;
    offset = record.next;
    if (offset - hashed < kPiece && offset < bytes.size()) continue;
    hash.Update(bytes.subspan(hashed, offset - hashed));
    if (progress) progress(offset - hashed);
    hashed = offset;
    MILLRACE_RETURN_IF_ERROR(CheckIndexStop(stop));
  }
  MILLRACE_RETURN_IF_ERROR(mapped.CheckIntact());
  file.features = features.Take();
  file.file.digest = hash.Finish();
  file.frames = frames.Finish();
  if (damage.count > 0) {
    damage.content = file.file.digest;
    file.damage = std::move(damage);
  }
  return scanned;
}

}  // namespace millrace
