#include "server/plan/packed/packed_source.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/batch/layout/tensor_table.h"
#include "common/system/mutex.h"
#include "server/plan/order/selection.h"
#include "server/plan/pack/make_layout.h"
#include "server/plan/packed/kept_layout.h"
#include "server/plan/packed/packed_documents.h"
#include "server/plan/packed/packed_reader.h"
#include "server/source/columns_read.h"
#include "server/source/source_decorator.h"

namespace millrace {
namespace {

/// Memory for windows that were packed last. A window of 4,096 documents has 40 kB.
constexpr std::uint64_t kWindowBytes = std::uint64_t{256} << 20;
/// Number of rows whose columns are found at once.
constexpr std::size_t kRowsAtOnce = 1024;
/// Number of documents whose lengths are read at once.
constexpr std::uint64_t kDocumentsRead = 4096;

PackOptions OptionsOf(const PackPart& part) {
  PackOptions options;
  options.size = part.size;
  options.method = part.fit ? PackMethod::kFit : PackMethod::kConcat;
  options.window = part.window;
  switch (part.above) {
    case PackPart::Above::kSplit:
      options.above = PackAbove::kSplit;
      break;
    case PackPart::Above::kCut:
      options.above = PackAbove::kCut;
      break;
    case PackPart::Above::kDrop:
      options.above = PackAbove::kDrop;
      break;
  }
  return options;
}

/// A digest of all that the rows of documents depend on.
Digest128 KeyOf(const Source& source, const Selection& selection, const PackPart& part,
                const Digest128& operations) {
  return Xxh3(fmt::format("rows 1\n{}\n{}\n{}\n{}\n{} {} {} {} {}\n{}\n", source.digest().ToHex(),
                          operations.ToHex(), part.tensor, selection.Digest().ToHex(), part.size,
                          part.fit ? "fit" : "concat", static_cast<int>(part.above), part.window,
                          part.before.size() + part.after.size(),
                          part.seed ? std::to_string(*part.seed) : "null"));
}

Result<PackLayout> LayoutOf(const PackedDocuments& documents, const PackPart& part,
                            const PackingOptions& options, Logger& logger) {
  const PackOptions pack = OptionsOf(part);
  const Digest128 key = KeyOf(documents.source(), documents.selection(), part, options.operations);
  std::optional<PackLayout> kept =
      FindLayout(options.folders, key, pack, documents.documents(), logger);
  if (kept) return *std::move(kept);
  Result<PackLayout> made =
      MakePackLayout(documents, pack, {.threads = options.threads, .stop = options.stop});
  MILLRACE_RETURN_IF_ERROR(documents.CheckLengths());
  if (!made.ok()) {
    const bool cancelled = made.status().code() == StatusCode::kCancelled;
    return cancelled ? made.status() : made.status().WithContext("pack.tensor");
  }
  if (options.folders.empty()) return made;
  const Status written = KeepLayout(options.folders, key, *made);
  if (!written.ok()) {
    logger.Warning("the rows of packed documents cannot be kept; the next process packs them again",
                   {{"why", written}});
  }
  return made;
}

/// How many documents could not be built when their lengths were measured. Looks only at documents
/// without elements, if there are any.
std::uint64_t CountNotBuilt(const PackedDocuments& documents, std::uint64_t empty) {
  std::uint64_t count = 0;
  if (empty == 0) return count;
  std::vector<std::uint64_t> lengths;
  for (std::uint64_t first = 0; first < documents.documents(); first += lengths.size()) {
    lengths.resize(std::min(kDocumentsRead, documents.documents() - first));
    documents.Read(first, lengths);
    for (std::uint64_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] != 0) continue;
      const ExampleId id = documents.At(first + i);
      if (documents.source().Unmeasured(documents.column(), id)) ++count;
    }
  }
  return count;
}

PackSummary SummaryOf(const PackedDocuments& documents, const PackLayout& layout,
                      std::uint64_t not_built) {
  const PlanCounts& counts = documents.selection().counts();
  const PackTotals& totals = layout.totals();
  PackSummary summary;
  summary.source_examples = counts.source_examples;
  summary.examples_per_split = counts.examples_per_split;
  summary.filtered = counts.filtered;
  summary.documents = documents.documents();
  summary.not_built = not_built;
  summary.empty = totals.empty - summary.not_built;
  summary.above = totals.above;
  summary.rows = totals.rows;
  summary.pieces = totals.pieces;
  summary.elements = totals.elements;
  summary.left_out = totals.left_out;
  summary.padding = layout.padding();
  return summary;
}

Status CheckRows(const PackSummary& summary, const PackPart& part) {
  if (summary.rows > 0) return OkStatus();
  std::string why;
  const auto add = [&](std::uint64_t count, const std::string& what) {
    if (count > 0) why += fmt::format(", {} {}", count, what);
  };
  add(summary.above, fmt::format("above {}", part.size));
  add(summary.empty, "empty");
  add(summary.not_built, "not built");
  return FailedPrecondition(
      fmt::format("pack.tensor: 0 rows: {} documents{}", summary.documents, why));
}

SourceFacts FactsOf(const PackedView& view, const PackPart& part) {
  const Source& source = view.documents->source();
  const SourceFacts& inner = source.facts();
  SourceFacts facts;
  facts.name = inner.name;
  facts.digest = inner.digest;
  facts.examples = view.rows->layout().rows();
  facts.columns = {{LengthColumnOf(part.tensor)}, {kPackPieces}, {kPackSquares}};
  facts.tensors = view.tensors.specs;
  facts.drop_reasons = inner.drop_reasons;
  facts.max_example_bytes = view.tensors.MaxRowBytes(part.size);
  facts.data_digest = inner.data_digest;
  facts.code = inner.code;
  facts.pools = inner.pools;
  facts.reading_stage = inner.reading_stage;
  facts.packed.emplace();
  for (const RowTensors::Copied& copied : view.tensors.copied) {
    facts.packed->with.push_back(view.tensors.specs[copied.to].path);
  }
  facts.packed->tensor = facts.packed->with.front();
  facts.packed->with.erase(facts.packed->with.begin());
  facts.token_tensor = facts.packed->tensor;
  facts.packed->size = static_cast<std::uint32_t>(part.size);
  return facts;
}

class PackedSource final : public SourceDecorator, public DocumentPacks {
 public:
  PackedSource(const std::shared_ptr<const Source>& source, const PackPart& part, PackedView view,
               PackSummary summary)
      : SourceDecorator(source, FactsOf(view, part)),
        view_(std::move(view)),
        summary_(std::move(summary)) {}

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override;
  ExampleDescription Describe(ExampleId id) const override;
  Status CheckIntact() const override {
    MILLRACE_RETURN_IF_ERROR(source().CheckIntact());
    if (!contradicted_) return OkStatus();
    MutexLock lock(mutex_);
    return contradiction_;
  }
  std::unique_ptr<ExampleReader> NewReader() const override {
    // The source's own plan could make its writer too.
    return *PackedReader::Make(view_);
  }
  // Rows have no files.
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    return Source::FileLabels(options);
  }
  const SourceTables* tables() const override;
  // Names are those of documents, so rows have none.
  std::unique_ptr<const ExampleNames> NewNames() const override { return nullptr; }
  bool Unmeasured(std::size_t /*column*/, ExampleId /*id*/) const override { return false; }

  const DocumentPacks* packs() const override { return this; }
  const Source& documents() const override { return source(); }
  const PackSummary& summary() const override { return summary_; }
  Result<std::vector<RowPiece>> PiecesOf(ExampleId row) const override;
  Result<std::vector<RowPiece>> PiecesIn(std::uint64_t epoch, ExampleId row) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto reader, PackedReader::Make(view_));
    return reader->KeptPieces(row, epoch);
  }
  Result<RowsOfDocument> RowsOf(ExampleId document) const override;
  std::uint32_t SplitLabel(ExampleId document) const override {
    return view_.documents->selection().split().Of(source(), document);
  }

 private:
  /// Notes that lengths have changed, so that no batch counts any more.
  void Note(const Status& contradiction) const;

  const PackedView view_;
  const PackSummary summary_;
  mutable std::atomic<bool> contradicted_{false};
  mutable Mutex mutex_;
  mutable Status contradiction_ MILLRACE_GUARDED_BY(mutex_);
};

void PackedSource::Note(const Status& contradiction) const {
  MutexLock lock(mutex_);
  if (contradiction_.ok()) contradiction_ = contradiction;
  contradicted_ = true;
}

void PackedSource::ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const {
  if (wanted.empty()) return;
  std::vector<RowColumns> columns;
  const std::size_t all = wanted.front().values.size();
  for (std::size_t done = 0; done < all; done += columns.size()) {
    columns.assign(std::min(kRowsAtOnce, all - done), {});
    const Status read = view_.rows->ReadColumns(first.value() + done, columns);
    if (!read.ok()) Note(read);
    for (const ColumnValues& column : wanted) {
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const std::uint64_t values[] = {columns[i].length, columns[i].pieces, columns[i].squares};
        column.values[done + i] = static_cast<std::int64_t>(values[column.column]);
      }
    }
  }
}

ExampleDescription PackedSource::Describe(ExampleId id) const {
  ExampleDescription description;
  description.title = fmt::format("row {}", id.value());
  const auto pieces = PiecesOf(id);
  if (!pieces.ok()) return description;
  std::vector<std::string> documents, begins, lengths;
  std::uint64_t elements = 0;
  for (const RowPiece& piece : *pieces) {
    documents.push_back(std::to_string(piece.document.value()));
    begins.push_back(std::to_string(piece.begin));
    lengths.push_back(std::to_string(piece.length));
    elements += piece.length;
  }
  description.facts = {{"elements", elements, "elements"},
                       {"pieces", std::uint64_t{pieces->size()}, "pieces"},
                       {"documents", std::move(documents), {}},
                       {"begins", std::move(begins), {}},
                       {"lengths", std::move(lengths), {}}};
  return description;
}

const SourceTables* PackedSource::tables() const {
  if (source().tables() == nullptr) return nullptr;
  for (const SourceTableSpec& table : source().tables()->TableSpecs()) {
    for (const std::string& path : table.tensors) {
      if (FindTensor(tensors(), path)) return source().tables();
    }
  }
  return nullptr;  // no tensor of rows refers to one
}

Result<std::vector<RowPiece>> PackedSource::PiecesOf(ExampleId row) const {
  std::vector<Piece> pieces;
  MILLRACE_RETURN_IF_ERROR(view_.rows->AppendPieces(row.value(), pieces));
  std::vector<RowPiece> found;
  for (const Piece& piece : pieces) {
    found.push_back({view_.documents->At(piece.document), piece.begin, piece.length});
  }
  return found;
}

Result<RowsOfDocument> PackedSource::RowsOf(ExampleId document) const {
  using enum RowsOfDocument::Why;
  const std::optional<std::uint64_t> place = view_.documents->DocumentOf(document);
  if (!place) return RowsOfDocument{kFiltered, {}};
  MILLRACE_ASSIGN_OR_RETURN(const DocumentRows rows, view_.rows->RowsOf(*place));
  RowsOfDocument found;
  for (const RowRun& run : rows.runs) found.runs.push_back({run.first, run.count});
  if (rows.reason == DocumentRows::Reason::kAbove) found.why = kAbove;
  if (rows.reason != DocumentRows::Reason::kEmpty) return found;
  found.why = source().Unmeasured(view_.documents->column(), document) ? kNotBuilt : kEmpty;
  return found;
}

/// The column with the lengths of T.
Result<std::size_t> LengthColumn(const Source& source, const PackPart& part) {
  const std::string name = LengthColumnOf(part.tensor);
  const auto column = source.FindColumn(name);
  if (!column.ok()) return column.status().WithContext("pack.tensor");
  if (!source.columns()[*column].floats) return column;
  return InvalidArgument(
      fmt::format("pack.tensor: the column {} has floats, expected integers", name));
}

}  // namespace

Result<std::shared_ptr<const Source>> PackDocuments(std::shared_ptr<const Source> source,
                                                    const PlanParts& parts,
                                                    const PackingOptions& options, Logger& logger) {
  const PackPart& part = parts.Get<PackPart>();
  if (part.tensor.empty()) return source;
  MILLRACE_RETURN_IF_ERROR(CheckPacks(*source, part));
  MILLRACE_ASSIGN_OR_RETURN(const std::size_t column, LengthColumn(*source, part));
  MILLRACE_ASSIGN_OR_RETURN(Selection selected, Selection::Make(*source, parts.Get<SplitPart>(),
                                                                parts.Get<FilterPart>()));
  PackedView view;
  view.documents = std::make_shared<const PackedDocuments>(
      source, std::make_shared<const Selection>(std::move(selected)), column,
      part.before.size() + part.after.size(), part.seed);
  view.excluded = parts.Get<ExcludePart>().examples;
  // Before documents are counted, which may take long.
  MILLRACE_RETURN_IF_ERROR(RowTensors::Make(*source, part, options.needs, 1).status());
  MILLRACE_ASSIGN_OR_RETURN(PackLayout made, LayoutOf(*view.documents, part, options, logger));
  const auto layout = std::make_shared<const PackLayout>(std::move(made));
  PackSummary summary =
      SummaryOf(*view.documents, *layout, CountNotBuilt(*view.documents, layout->totals().empty));
  MILLRACE_RETURN_IF_ERROR(CheckRows(summary, part));
  MILLRACE_ASSIGN_OR_RETURN(view.tensors,
                            RowTensors::Make(*source, part, options.needs, layout->rows()));
  view.rows = PackRows::Make(layout, view.documents, kWindowBytes);
  // Makes sure that readers can be made.
  MILLRACE_RETURN_IF_ERROR(PackedReader::Make(view).status());
  return std::shared_ptr<const Source>(
      std::make_shared<const PackedSource>(source, part, std::move(view), std::move(summary)));
}

}  // namespace millrace
