#include "server/kinds/records/records_kind.h"

#include <algorithm>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "server/kinds/records/generator/records_generator.h"
#include "server/kinds/records/index/records_index_store.h"
#include "server/kinds/records/index/records_scan.h"
#include "server/kinds/records/records_dataset.h"
#include "server/kinds/records/records_source.h"
#include "server/kinds/records/suggest_source.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

/// Names of files are listed up to this many.
constexpr std::size_t kListedFiles = 1000;

std::uint64_t BytesOf(const RecordsIndex& index) {
  std::uint64_t bytes = 0;
  for (const RecordsFile& file : index.files()) bytes += file.file.size;
  return bytes;
}

/// The type of a feature as `source:` would have it, as far as counts tell.
std::string FeatureTypes(const FeatureCounts& feature) {
  std::string types;
  const auto add = [&types](std::uint64_t count, const char* name) {
    if (count > 0) types += fmt::format("{}{}", types.empty() ? "" : ", ", name);
  };
  add(feature.bytes, "bytes");
  add(feature.floats, "float32");
  add(feature.integers, "int64");
  return types;
}

/// Files of the folder that are no records.
std::vector<std::string> OtherFiles(const fs::path& dir) {
  std::vector<std::string> others;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string last = entry.path().filename().string();
    std::error_code ignored;
    if (last.starts_with('.') || !entry.is_regular_file(ignored)) continue;
    if (!IsRecordsFile(last)) others.push_back(last);
  }
  std::sort(others.begin(), others.end());
  return others;
}

std::string DescribeRecords(const RecordsDataset& dataset) {
  const RecordsIndex& index = dataset.index();
  std::string text = fmt::format(
      "records          {}\n"
      "files            {}\n"
      "bytes            {}\n"
      "digest           {}\n",
      index.records(), index.files().size(), BytesOf(index), dataset.digest().ToHex());
  if (index.others() > 0) {
    text += fmt::format("no Example       {} records: their data are no tf.train.Example\n",
                        index.others());
  }
  text += "features\n";
  for (const FeatureCounts& feature : index.features()) {
    text += fmt::format("  {:<28} {:<16} in {} records\n", Escaped(feature.name),
                        FeatureTypes(feature), feature.records());
  }
  text += "files\n";
  for (std::size_t f = 0; f < std::min(index.files().size(), kListedFiles); ++f) {
    const RecordsFile& file = index.files()[f];
    text += fmt::format("  {}: {} records, {} bytes\n", Escaped(file.file.name), file.records,
                        file.file.size);
  }
  if (index.files().size() > kListedFiles) {
    text += fmt::format("  and {} more\n", index.files().size() - kListedFiles);
  }
  for (const OmittedFile& file : index.left_out()) {
    text += fmt::format("  left out: {}\n", file.file.ToString());
  }
  for (const std::string& name : OtherFiles(dataset.dir())) {
    text += fmt::format("  no records, by its name: {}\n", Escaped(name));
  }
  return text + DescribeLinkedFolders(dataset.dir());
}

class RecordsKind final : public DatasetKind {
 public:
  std::string_view name() const override { return kRecordsKind; }
  std::string_view looks_for() const override {
    return "*tfrecord* or *-NNNNN-of-NNNNN file below it";
  }
  bool IsOne(const fs::path& dir) const override {
    return HasDatasetFile(dir, IsRecordsFileOrImport);
  }
  const SourceTable& sources() const override { return sources_; }

  OpenedDataset Open(const fs::path& dir, const DatasetOpenOptions& options) const override {
    RecordsIndexOutcome outcome;
    auto index = OpenOrBuildRecordsIndex(dir, options, outcome);
    OpenedDataset opened;
    opened.status = index.status();
    std::shared_ptr<const RecordsIndex> usable;
    if (index.ok()) {
      usable = *std::move(index);
      opened.bad_files = usable->left_out().size();
    } else if (!outcome.bad.empty()) {
      for (const BadFile& file : outcome.bad) opened.damaged.push_back(file.name);
      opened.bad_files = outcome.bad.size();
      usable = outcome.with_damage != nullptr
                   ? outcome.with_damage
                   : IndexOfBetterDays<RecordsIndex>(dir, options, opened.damaged);
    }
    if (usable) opened.dataset = std::make_shared<const RecordsDataset>(dir, std::move(usable));
    return opened;
  }

  Result<std::string> Index(const fs::path& dir, const DatasetOpenOptions& options) const override {
    RecordsIndexOutcome outcome;
    MILLRACE_ASSIGN_OR_RETURN(auto index, OpenOrBuildRecordsIndex(dir, options, outcome));
    const std::string text = DescribeBuilding(outcome, index->files().size());
    return text + DescribeRecords(RecordsDataset(dir, std::move(index)));
  }

  Result<std::string> Inspect(const fs::path& dir,
                              const DatasetOpenOptions& options) const override {
    RecordsIndexOutcome outcome;
    MILLRACE_ASSIGN_OR_RETURN(auto index, OpenOrBuildRecordsIndex(dir, options, outcome));
    const RecordsDataset dataset(dir, std::move(index));
    return DescribeRecords(dataset) + SuggestSource(dataset);
  }

  Result<std::string> Verify(const fs::path& dir,
                             const DatasetOpenOptions& options) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto index, FindRecordsIndex(dir, options));
    MILLRACE_RETURN_IF_ERROR(VerifyRecords(dir, *index, options));
    return DescribeVerified(index->files().size(), BytesOf(*index), index->digest(),
                            index->left_out().size());
  }

  Result<DatasetListing> FilesToWarm(const fs::path& dir) const override {
    MILLRACE_ASSIGN_OR_RETURN(DatasetListing listing, ListRecords(dir));
    return WithIndex(dir, std::move(listing));
  }

  std::vector<Parameter> generate_parameters() const override {
    return RecordsGenerateParameters();
  }
  Result<std::string> Generate(const fs::path& dir, const GenerateRequest& request) const override {
    return GenerateRecords(dir, request);
  }

 private:
  const SourceTable sources_ = RecordsSources();
};

}  // namespace

std::shared_ptr<const DatasetKind> MakeRecordsKind() { return std::make_shared<RecordsKind>(); }

}  // namespace millrace
