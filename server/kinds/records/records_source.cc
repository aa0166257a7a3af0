#include "server/kinds/records/records_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "common/parameters/make_parameter.h"
#include "server/kinds/records/record_features.h"
#include "server/kinds/records/record_rows.h"
#include "server/kinds/records/records_dataset.h"
#include "server/source/declared_tensors.h"
#include "server/source/example_columns.h"
#include "server/source/file_labels.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {
namespace {

constexpr const char* kOnError = "on_error";
constexpr const char* kBytesColumn = "bytes";

class RecordsSource final : public Source {
 public:
  RecordsSource(std::shared_ptr<const RecordsDataset> dataset, std::vector<RecordFeature> features,
                DeclaredTensors tensors, const std::vector<std::string>& excluded, bool drops)
      : dataset_(std::move(dataset)),
        features_(std::move(features)),
        tensors_(std::move(tensors)),
        drops_(drops) {
    SourceFacts facts;
    facts.name = kRecordsKind;
    facts.digest = dataset_->digest();
    facts.examples = dataset_->examples();
    facts.columns = {{std::string(kExampleIdTensor)}, {kFileColumn}, {kBytesColumn}};
    facts.tensors = tensors_.specs;
    facts.split_column = kExampleIdTensor;
    facts.drop_reasons = DropReasonNames({"bad_record"});
    facts.max_example_bytes = MaxExampleBytes();
    SetFacts(std::move(facts));
    for (const RecordsFile& file : dataset_->index().files()) {
      excluded_.push_back(std::find(excluded.begin(), excluded.end(), file.file.name) !=
                          excluded.end());
      excludes_any_ = excludes_any_ || excluded_.back();
      if (!file.damage || excluded_.back() || drops_) continue;
      refused_.push_back(static_cast<std::uint32_t>(excluded_.size() - 1));
    }
  }

  const RecordsDataset& dataset() const { return *dataset_; }
  const std::vector<RecordFeature>& features() const { return features_; }
  const DeclaredTensors& declared() const { return tensors_; }
  bool drops() const { return drops_; }
  bool IsExcluded(std::uint32_t file) const { return excluded_[file]; }
  bool excludes_any() const { return excludes_any_; }

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override;
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    std::vector<std::string_view> names;
    for (const RecordsFile& file : dataset_->index().files()) names.push_back(file.file.name);
    return LabelsOfFiles(names, options);
  }
  ExampleDescription Describe(ExampleId id) const override;
  std::unique_ptr<ExampleReader> NewReader() const override;
  std::unique_ptr<const ExampleNames> NewNames() const override;
  Status CheckIntact() const override;

 private:
  std::uint64_t MaxExampleBytes() const;
  void ReadSizes(ExampleId first, std::span<std::int64_t> values) const;

  const std::shared_ptr<const RecordsDataset> dataset_;
  const std::vector<RecordFeature> features_;
  const DeclaredTensors tensors_;
  const bool drops_;
  std::vector<bool> excluded_;  // for each file
  bool excludes_any_ = false;
  std::vector<std::uint32_t> refused_;  // files with damaged records that are not dropped
  /// Sizes of records were wanted that could not be read, so what goes by them is wrong.
  mutable std::atomic<bool> lacks_sizes_{false};
};

void RecordsSource::ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const {
  const RecordsIndex& index = dataset_->index();
  for (const ColumnValues& column : wanted) {
    if (column.values.empty()) continue;
    if (column.column == 0) {
      ReadExampleIds(first, column.values);
    } else if (column.column == 1) {
      const auto first_of = [&](std::uint32_t file) { return index.FirstRecord(file); };
      ReadFileNumbers(first, index.FileOf(first.value()), first_of, column.values);
    } else {
      ReadSizes(first, column.values);
    }
  }
}

void RecordsSource::ReadSizes(ExampleId first, std::span<std::int64_t> values) const {
  constexpr std::size_t kAtOnce = 1024;
  std::vector<ExampleId> ids;
  std::vector<PlacedRecord> places;
  for (std::size_t at = 0; at < values.size(); at += ids.size()) {
    ids.clear();
    for (std::size_t i = at; i < std::min(values.size(), at + kAtOnce); ++i) {
      ids.emplace_back(first.value() + i);
    }
    // Records that cannot be read are noted as damage, and no batch comes of them (CheckIntact).
    const bool found = dataset_->Find(ids, places).ok();
    bool all = found;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::optional<std::uint64_t> size = found ? dataset_->SizeOf(places[i]) : std::nullopt;
      values[at + i] = static_cast<std::int64_t>(size.value_or(0));
      all = all && size.has_value();
    }
    if (!all) lacks_sizes_.store(true);
  }
}

ExampleDescription RecordsSource::Describe(ExampleId id) const {
  const RecordsIndex::Place place = dataset_->index().Find(id.value());
  ExampleDescription description;
  description.file = dataset_->index().files()[place.file].file.name;
  description.title = fmt::format("record {}", place.number);
  description.facts = {{"record", place.number, "record"}};
  std::vector<PlacedRecord> found;
  if (dataset_->Find({&id, 1}, found).ok()) {
    description.facts.push_back({"offset", found.front().offset, "byte"});
  }
  return description;
}

Status RecordsSource::CheckIntact() const {
  const std::vector<DamagedFile> damages = dataset_->Damages();
  std::vector<std::string> excluded;
  std::vector<std::string> needed;
  std::string what;
  bool single_records = true;  // are all that is damaged
  const auto need = [&](const std::string& name, const std::string& why) {
    needed.push_back(name);
    what += fmt::format("{}{}: {}", what.empty() ? "" : "; ", name, why);
  };
  for (const DamagedFile& damage : damages) {
    if (damage.file == DamagedFile::kIndex) {
      return DamagedIndexStatus(dataset_->dir().string(), damage);
    }
    if (excluded_[damage.file]) continue;
    single_records = false;
    need(damage.name, damage.what);
  }
  for (const std::uint32_t f : refused_) {
    const RecordsFile& file = dataset_->index().files()[f];
    const bool known = std::any_of(damages.begin(), damages.end(),
                                   [f](const DamagedFile& damage) { return damage.file == f; });
    if (!known) need(file.file.name, file.damage->first);
  }
  if (needed.empty() && lacks_sizes_.load()) {
    return DataLoss(fmt::format(
        "dataset '{}': the pipeline goes by the column {}, which needs every file, {}; put it back "
        "and restart the workers that had it open, or go by another column",
        dataset_->dir().string(), kBytesColumn,
        damages.empty() ? "and one could not be opened"
                        : fmt::format("also {}: {}", damages.front().name, damages.front().what)));
  }
  if (needed.empty()) return OkStatus();
  for (std::size_t f = 0; f < excluded_.size(); ++f) {
    if (excluded_[f]) excluded.push_back(dataset_->index().files()[f].file.name);
  }
  const Status status = DamagedFilesStatus(dataset_->dir().string(), what, excluded, needed);
  if (!single_records) return status;
  return DataLoss(status.message() +
                  "; or, to go on without the damaged records alone, `on_error: drop` beside "
                  "`records`");
}

std::uint64_t RecordsSource::MaxExampleBytes() const {
  std::uint64_t largest = 0;
  for (const RecordsFile& file : dataset_->index().files()) {
    largest = std::max(largest, file.largest);
  }
  std::uint64_t bytes = 0;
  for (const TensorSpec& spec : tensors_.specs) {
    if (spec.splits.empty()) bytes += spec.row_bytes();
  }
  for (const RecordFeature& feature : features_) {
    if (!feature.type.ragged) continue;
    // A byte of a packed list can be an integer, which takes 8.
    bytes += std::max<std::uint64_t>(largest * (feature.kind == FeatureKind::kInt64 ? 8 : 1),
                                     feature.fallback ? feature.fallback->size() : 0);
    // A text takes 2 bytes more than it has, and the number of its bytes takes 4.
    if (feature.texts) bytes += std::max(largest * 2, feature.fallback_lengths.size() * 4);
  }
  return bytes;
}

/// A record is named by the digest of its file and its number there.
class RecordNames final : public ExampleNames {
 public:
  explicit RecordNames(const RecordsIndex& index) : index_(index) {}

  void Name(std::span<const ExampleId> ids, std::span<Digest128> names) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::uint32_t file = index_.FileOf(ids[i].value());
      const Digest128& digest = index_.files()[file].file.digest;
      const std::array<std::uint64_t, 3> words = {digest.high, digest.low,
                                                  ids[i].value() - index_.FirstRecord(file)};
      names[i] = Xxh3(std::as_bytes(std::span(words)));
    }
  }

 private:
  const RecordsIndex& index_;
};

class RecordReader final : public ExampleReader {
 public:
  explicit RecordReader(const RecordsSource& source)
      : source_(source), rows_(source.features(), source.declared()) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    if (!source_.excludes_any()) return AppendFound(ids, writer);
    // A file that is excluded is not opened, because it may be gone.
    std::size_t done = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!source_.IsExcluded(source_.dataset().index().FileOf(ids[i].value()))) continue;
      MILLRACE_RETURN_IF_ERROR(AppendFound(ids.subspan(done, i - done), writer));
      writer.AddDropped(ids[i], DropReason::kExcluded);
      done = i + 1;
    }
    return AppendFound(ids.subspan(done), writer);
  }

 private:
  /// So many records are looked for at once that the processor waits for several at a time, and so
  /// few that its nearest cache still has what was fetched of them when they are read.
  static constexpr std::size_t kAtOnce = 32;

  /// Appends records of files that are not excluded.
  Status AppendFound(std::span<const ExampleId> ids, BatchWriter& writer) {
    for (; !ids.empty(); ids = ids.subspan(std::min(kAtOnce, ids.size()))) {
      MILLRACE_RETURN_IF_ERROR(AppendSome(ids.first(std::min(kAtOnce, ids.size())), writer));
    }
    return OkStatus();
  }

  Status AppendSome(std::span<const ExampleId> ids, BatchWriter& writer) {
    MILLRACE_RETURN_IF_ERROR(source_.dataset().Find(ids, places_));
    for (const PlacedRecord& place : places_) Touch(place);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const auto data, DataOf(places_[i]));
      const std::string fault = data ? rows_.Check(*data) : "checksum of the data";
      if (fault.empty()) {
        rows_.Write(ids[i], writer);
      } else if (source_.drops()) {
        writer.AddDropped(ids[i], kBadRecord);
      } else {
        return BadRecord(ids[i], places_[i], fault);
      }
    }
    return OkStatus();
  }

  /// The data of a record; empty if their checksum is wrong and such records are dropped.
  Result<std::optional<std::span<const std::byte>>> DataOf(const PlacedRecord& place) const {
    if (source_.drops()) return source_.dataset().ReadSound(place);
    MILLRACE_ASSIGN_OR_RETURN(const std::span<const std::byte> data, source_.dataset().Read(place));
    return std::optional(data);
  }

  /// Reads a byte of each of the first lines of a record. Many such reads wait for memory together,
  /// whereas reading one record after another waits for each. A prefetch would not do: processors
  /// may drop it if they have no translation of the page, and here they seldom have one.
  static void Touch(const PlacedRecord& place) {
    constexpr std::uint64_t kBytes = 320;
    constexpr std::uint64_t kLine = 64;
    const volatile std::byte* const from = place.in.data() + place.offset;
    const std::uint64_t left = place.in.size() - std::min(place.offset, place.in.size());
    for (std::uint64_t at = 0; at < std::min(kBytes, left); at += kLine) {
      static_cast<void>(from[at]);
    }
  }

  Status BadRecord(ExampleId id, const PlacedRecord& place, std::string_view fault) const {
    return DataLoss(fmt::format(
        "dataset {}: {}: bad_record: {}; to go on without it, write `exclude: {{examples: [{}]}}`, "
        "or `on_error: drop` beside `records` for all such records",
        source_.dataset().dir().string(), source_.dataset().Where(place), fault, id.value()));
  }

  const RecordsSource& source_;
  RecordRows rows_;
  std::vector<PlacedRecord> places_;
};

std::unique_ptr<ExampleReader> RecordsSource::NewReader() const {
  return std::make_unique<RecordReader>(*this);
}

std::unique_ptr<const ExampleNames> RecordsSource::NewNames() const {
  return std::make_unique<RecordNames>(dataset_->index());
}

Result<std::shared_ptr<const Source>> MakeRecordsSource(std::shared_ptr<const Dataset> dataset,
                                                        const PlanParts& parts) {
  auto records = std::static_pointer_cast<const RecordsDataset>(std::move(dataset));
  const SourcePart& part = parts.Get<SourcePart>();
  MILLRACE_ASSIGN_OR_RETURN(std::vector<RecordFeature> features, ReadRecordFeatures(part.argument));
  const Status occur = CheckFeaturesOccur(features, records->index());
  if (!occur.ok()) return AtKey(parts, occur);
  std::vector<DeclaredTensor> declared;
  for (const RecordFeature& feature : features) declared.push_back(feature.Declared());
  MILLRACE_ASSIGN_OR_RETURN(DeclaredTensors tensors, DeclareTensors(declared, records->examples()));
  const auto on_error = part.options.find(kOnError);
  const bool drops =
      on_error != part.options.end() && on_error->second == ParamValue(std::string("drop"));
  auto source = std::make_shared<const RecordsSource>(std::move(records), std::move(features),
                                                      std::move(tensors),
                                                      parts.Get<ExcludePart>().files, drops);
  MILLRACE_RETURN_IF_ERROR(source->CheckIntact());
  return std::shared_ptr<const Source>(std::move(source));
}

}  // namespace

SourceTable RecordsSources() {
  Parameter on_error = WordParameter(
      kOnError, "fail",
      "what a record does that does not fit the types; drop also drops those whose data "
      "have a wrong checksum",
      {"fail", "drop"});
  on_error.in_order = false;
  SourceType records;
  records.name = kRecordsKind;
  records.help = "a record";
  records.make = MakeRecordsSource;
  records.argument = WithCheck(
      ParameterOf(
          {ParamType::kTree}, "",
          "tensors and their types, such as {d: \"bytes[194]\", s: int64, x: \"float32[*, 80]\", "
          "tags: \"str[*]\"}, or {name: {feature: \"image/label\", type: int64, default: 0}}"),
      [](const ParamValue& value) { return ReadRecordFeatures(value).status(); });
  records.options = {std::move(on_error)};
  return SourceTable({std::move(records)});
}

}  // namespace millrace
