#include "server/kinds/records/index/records_index_store.h"

#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "server/kinds/records/index/records_scan.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using RecordsIndexPtr = std::shared_ptr<const RecordsIndex>;

class RecordsStore final : public IndexStore<RecordsIndex, ScannedRecords> {
 public:
  RecordsStore(const fs::path& dir, const DatasetOpenOptions& options, RecordsIndexOutcome& outcome)
      : IndexStore(dir, options, outcome), with_damage_(outcome.with_damage) {}

 private:
  std::string_view magic() const override {
    return {kRecordsIndexMagic, sizeof(kRecordsIndexMagic)};
  }
  bool IsDataFile(std::string_view last) const override { return IsRecordsFile(last); }
  Result<DatasetListing> List() const override { return ListRecords(dir()); }

  Result<ScannedRecords> Read(std::size_t number, const RecordsFile* before,
                              const ReportBytes& progress) const override {
    MILLRACE_ASSIGN_OR_RETURN(ScannedRecords scanned,
                              ScanRecords(dir(), listing().names[number],
                                          listing().identities[number], options().stop, progress));
    if (scanned.file.damage && options().skip_bad) return DataLoss(scanned.file.damage->first);
    if (before != nullptr) KeepDigest(*before, scanned.file);
    return scanned;
  }

  /// Lets a file with damaged records have the digest from before the damage, if it was the same
  /// file apart from it.
  static void KeepDigest(const RecordsFile& before, RecordsFile& now) {
    if (!now.damage || !before.frames || before.frames != now.frames) return;
    if (before.file.size == now.file.size) now.file.digest = before.file.digest;
  }

  bool MayTakeOver(const RecordsFile& file, bool same) const override {
    // Whether records of a file that was touched are damaged has to be read.
    return !file.damage || (same && !options().skip_bad);
  }
  ScannedRecords TakeOver(const RecordsIndex& older, std::uint32_t file,
                          std::size_t number) const override {
    ScannedRecords scanned = {older.files()[file], older.OffsetsOf(file)};
    scanned.file.file.identity = listing().identities[number];
    return scanned;
  }

  std::string WhyAlsoStale(const RecordsIndex& index) const override {
    for (const RecordsFile& file : index.files()) {
      if (file.damage && options().skip_bad) return file.file.name + " has damaged records";
    }
    return {};
  }
  std::optional<BadFile> DamageOf(const ScannedRecords& scanned) const override {
    if (!scanned.file.damage) return std::nullopt;
    return BadFile{scanned.file.file.name, scanned.file.damage->first};
  }

  Status Write(const fs::path& place, std::vector<ScannedRecords> entries,
               std::vector<OmittedFile> left_out) const override {
    RecordsIndexContent content;
    std::vector<std::vector<std::uint64_t>> offsets;
    for (ScannedRecords& scanned : entries) {
      content.files.push_back(std::move(scanned.file));
      offsets.push_back(std::move(scanned.offsets));
    }
    content.left_out = std::move(left_out);
    return RecordsIndex::Write(place, content, offsets);
  }

  /// The index, or the error about the damaged records of its files.
  Result<RecordsIndexPtr> Judge(RecordsIndexPtr index) override {
    std::vector<BadFile> bad;
    for (const RecordsFile& file : index->files()) {
      if (file.damage) bad.push_back({file.file.name, file.damage->first});
    }
    if (bad.empty()) return index;
    with_damage_ = std::move(index);
    return BadFilesError(std::move(bad), kSkipBadHelps);
  }

  LogField CountOf(const RecordsIndex& index) const override {
    return {"records", index.records()};
  }
  void ReportMore(const RecordsIndex& index) const override {
    for (const RecordsFile& file : index.files()) {
      if (!file.damage) continue;
      logger().Warning("file has damaged records", {{"dataset", dir().string()},
                                                    {"file", Escaped(file.file.name)},
                                                    {"records", file.damage->count},
                                                    {"first", file.damage->first}});
    }
  }

  std::shared_ptr<const RecordsIndex>& with_damage_;
};

}  // namespace

Result<RecordsIndexPtr> OpenOrBuildRecordsIndex(const fs::path& dir,
                                                const DatasetOpenOptions& options,
                                                RecordsIndexOutcome& outcome) {
  return RecordsStore(dir, options, outcome).Run();
}

Result<RecordsIndexPtr> FindRecordsIndex(const fs::path& dir, const DatasetOpenOptions& options) {
  MILLRACE_RETURN_IF_ERROR(ListRecords(dir).status());
  return FindIndex<RecordsIndex>(dir, options);
}

Status VerifyRecords(const fs::path& dir, const RecordsIndex& index,
                     const DatasetOpenOptions& options) {
  FilesToVerify indexed;
  MILLRACE_ASSIGN_OR_RETURN(indexed.listing, ListRecords(dir));
  indexed.left_out = index.left_out();
  for (const RecordsFile& file : index.files()) {
    indexed.files.push_back(file.file);
    indexed.damages.push_back(file.damage ? file.damage->first : std::string());
    if (file.damage) indexed.files.back().digest = file.damage->content;
  }
  return VerifyIndexedFiles(dir, indexed, options);
}

}  // namespace millrace
