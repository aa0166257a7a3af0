#include "server/kinds/tokens/tokens_source.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/batch/batch_writer.h"
#include "common/parameters/make_parameter.h"
#include "server/kinds/tokens/format/token_copy.h"
#include "server/kinds/tokens/format/token_type.h"
#include "server/kinds/tokens/token_documents.h"
#include "server/kinds/tokens/tokens_dataset.h"
#include "server/kinds/tokens/tokens_options.h"
#include "server/source/declared_tensors.h"
#include "server/source/example_columns.h"
#include "server/source/file_labels.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {
namespace {

/// The numbers of the tensors.
constexpr std::size_t kIdsTensor = 0;
constexpr std::size_t kTokensTensor = 1;
constexpr const char* kTokensPath = "tokens";
constexpr const char* kLengthColumn = "tokens.length";

/// The splits of a batch have 32 bits.
constexpr std::uint64_t kMostTokensOfRow = 0xFFFFFFFF;

/// The dataset as a source reads it.
struct TokensView {
  std::shared_ptr<const TokensDataset> dataset;
  std::shared_ptr<const TokenDocuments> documents;
  RawLayout layout;            // of pairs, too
  std::uint64_t largest = 0;   // token
  bool has_vocab = false;      // which is largest + 1
  std::vector<bool> excluded;  // of each file with tokens
};

SourceFacts FactsOf(const TokensView& view) {
  SourceFacts facts;
  facts.name = kTokensKind;
  facts.digest = view.dataset->digest();
  facts.examples = view.documents->size();
  facts.columns = {{std::string(kExampleIdTensor)}, {kFileColumn}, {kLengthColumn}};
  facts.split_column = kExampleIdTensor;
  TensorSpec tokens;
  tokens.path = kTokensPath;
  tokens.kind = TensorKind::kRaggedValues;
  tokens.dtype = TravelType(view.layout.dtype);
  tokens.dimension = kTokensPath;
  tokens.splits = std::string(kTokensPath) + "_splits";
  tokens.max = view.largest;
  const TensorSpec ids = DeclaredIds(facts.examples);
  facts.max_example_bytes = ids.row_bytes() + view.documents->longest() * DTypeSize(tokens.dtype);
  facts.tensors = {ids, tokens, DeclaredSplits(tokens.splits)};
  facts.token_tensor = kTokensPath;
  return facts;
}

class TokensSource final : public Source {
 public:
  explicit TokensSource(TokensView view) : Source(FactsOf(view)), view_(std::move(view)) {}

  const TokensView& view() const { return view_; }

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override;
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    std::vector<std::string_view> names;
    for (std::size_t f = 0; f < view_.excluded.size(); ++f) {
      names.push_back(view_.dataset->NameOf(f));
    }
    return LabelsOfFiles(names, options);
  }
  ExampleDescription Describe(ExampleId id) const override;
  std::unique_ptr<ExampleReader> NewReader() const override;
  std::unique_ptr<ElementReader> NewElementReader(std::size_t tensor) const override;
  Status CheckIntact() const override;

 private:
  const TokensView view_;
};

void TokensSource::ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const {
  const TokenDocuments& documents = *view_.documents;
  for (const ColumnValues& column : wanted) {
    if (column.values.empty()) continue;
    if (column.column == 0) {
      ReadExampleIds(first, column.values);
    } else if (column.column == 1) {
      const auto first_of = [&](std::uint32_t file) { return documents.FirstOf(file); };
      ReadFileNumbers(first, documents.FileOf(first.value()), first_of, column.values);
    } else {
      documents.ReadLengths(first.value(), column.values);
    }
  }
}

ExampleDescription TokensSource::Describe(ExampleId id) const {
  const char* const what = view_.dataset->index().is_pairs() ? "sequence" : "document";
  const std::uint32_t file = view_.documents->FileOf(id.value());
  const std::uint64_t number = id.value() - view_.documents->FirstOf(file);
  ExampleDescription description;
  description.file = view_.dataset->NameOf(file);
  description.title = fmt::format("{} {}", what, number);
  description.facts = {{what, number, what}};
  if (const Result<DocumentPlace> place = view_.documents->Find(id.value()); place.ok()) {
    description.facts.push_back({"first_token", place->first, "token"});
    description.facts.push_back({"tokens", place->tokens, "tokens"});
  }
  return description;
}

Status TokensSource::CheckIntact() const {
  const std::vector<DamagedFile> damages = view_.dataset->Damages();
  if (damages.empty()) return OkStatus();
  const TokensIndex& index = view_.dataset->index();
  std::vector<std::string> excluded;
  std::vector<std::string> needed;
  std::string what;
  for (std::size_t f = 0; f < index.data().size(); ++f) {
    const TokensIndex::Data& data = index.data()[f];
    if (view_.excluded[f]) excluded.push_back(index.DataFile(f).file.name);
    for (const DamagedFile& damage : damages) {
      if (data.sequences && damage.file == *data.sequences) {
        return DataLoss(fmt::format(
            "dataset '{}' has a damaged file ({}: {}); it says where the sequences of {} are, so "
            "it "
            "is needed even if that file is excluded; put it back and restart the workers that had "
            "it open",
            view_.dataset->dir().string(), damage.name, damage.what, index.DataFile(f).file.name));
      }
      if (damage.file != data.file || view_.excluded[f]) continue;
      needed.push_back(damage.name);
      what += fmt::format("{}{}: {}", what.empty() ? "" : "; ", damage.name, damage.what);
    }
  }
  if (needed.empty()) return OkStatus();
  return DamagedFilesStatus(view_.dataset->dir().string(), what, excluded, needed);
}

/// Where the tokens of a document begin in its file.
std::uint64_t BeginOf(const TokensView& view, const DocumentPlace& place) {
  return view.layout.begins[place.data] + place.first * DTypeSize(view.layout.dtype);
}

/// Copies tokens of a document. DataLoss that names the file and the first token that cannot be.
Status CopySome(const TokensView& view, ExampleId id, const DocumentPlace& place,
                std::uint64_t first, std::uint64_t count, std::byte* to) {
  const std::uint64_t width = DTypeSize(view.layout.dtype);
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile* const file, view.dataset->OpenData(place.data));
  const std::span<const std::byte> bytes =
      file->bytes().subspan(BeginOf(view, place) + first * width, count * width);
  const std::optional<WrongToken> wrong =
      CopyTokens(view.layout.dtype, bytes, view.largest, to);
  if (!wrong) return OkStatus();
  return DataLoss(fmt::format(
      "dataset {}: file {}, document {}: token {} is {}, expected 0 to {}{}; to go on without "
      "it, write `exclude: {{examples: [{}]}}`",
      view.dataset->dir().string(), view.dataset->NameOf(place.data), place.number,
      place.first + first + wrong->place, wrong->value, view.largest,
      view.has_vocab ? " (vocab)" : "", id.value()));
}

/// Documents, or parts, of so many bytes are asked for before any is read, so that a disk reads
/// them side by side, and each at once.
constexpr std::uint64_t kAskedFor = std::uint64_t{64} << 10;

/// Reads parts of documents.
class TokensPartReader final : public ElementReader {
 public:
  explicit TokensPartReader(const TokensSource& source) : view_(source.view()) {}

  std::optional<DropReason> DropOf(ExampleId id) override {
    if (!view_.excluded[view_.documents->FileOf(id.value())]) return std::nullopt;
    return DropReason::kExcluded;
  }
  void WillRead(ExampleId id, std::uint64_t first, std::uint64_t count) override {
    const std::uint64_t width = DTypeSize(view_.layout.dtype);
    if (count * width < kAskedFor) return;
    const Result<DocumentPlace> place = view_.documents->Find(id.value());
    if (!place.ok()) return;  // Read tells
    const auto file = view_.dataset->OpenData(place->data);
    if (file.ok()) (*file)->WillRead(BeginOf(view_, *place) + first * width, count * width);
  }
  Status Read(ExampleId id, std::uint64_t first, std::uint64_t count, std::byte* to) override {
    MILLRACE_ASSIGN_OR_RETURN(const DocumentPlace place, view_.documents->Find(id.value()));
    // An X.idx may change while it is read.
    if (count > place.tokens || first > place.tokens - count) {
      return DataLoss(fmt::format("dataset {}: file {}, document {} has {} tokens, and had {} or "
                                  "more before",
                                  view_.dataset->dir().string(), view_.dataset->NameOf(place.data),
                                  place.number, place.tokens, first + count));
    }
    return CopySome(view_, id, place, first, count, to);
  }

 private:
  const TokensView& view_;
};

class TokensReader final : public ExampleReader {
 public:
  explicit TokensReader(const TokensSource& source)
      : view_(source.view()), width_(DTypeSize(view_.layout.dtype)) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    MILLRACE_RETURN_IF_ERROR(Find(ids));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const DocumentPlace& place = places_[i];
      if (view_.excluded[place.data]) {
        writer.AddDropped(ids[i], DropReason::kExcluded);
        continue;
      }
      if (place.tokens > 0) MILLRACE_RETURN_IF_ERROR(AppendTokens(ids[i], place, writer));
      writer.AppendOne(kIdsTensor, static_cast<std::int64_t>(ids[i].value()));
      writer.EndExample(ids[i]);
    }
    return OkStatus();
  }

 private:
  Status Find(std::span<const ExampleId> ids) {
    places_.clear();
    for (const ExampleId id : ids) {
      const std::uint32_t data = view_.documents->FileOf(id.value());
      if (view_.excluded[data]) {
        places_.push_back({.data = data});
        continue;
      }
      MILLRACE_ASSIGN_OR_RETURN(const DocumentPlace place, view_.documents->Find(id.value()));
      places_.push_back(place);
      if (place.tokens * width_ < kAskedFor) continue;
      MILLRACE_ASSIGN_OR_RETURN(const MappedFile* const file, view_.dataset->OpenData(place.data));
      file->WillRead(BeginOf(view_, place), place.tokens * width_);
    }
    return OkStatus();
  }

  Status AppendTokens(ExampleId id, const DocumentPlace& place, BatchWriter& writer) const {
    if (place.tokens > kMostTokensOfRow) {
      return FailedPrecondition(fmt::format(
          "dataset {}: file {}, document {} has {} tokens, a row of a batch at most {}: cut the "
          "file into documents with source.tokens.eos or bos",
          view_.dataset->dir().string(), view_.dataset->NameOf(place.data), place.number,
          place.tokens, kMostTokensOfRow));
    }
    return CopySome(view_, id, place, 0, place.tokens, Room(place.tokens, writer));
  }

  /// Room for tokens as they travel.
  std::byte* Room(std::uint64_t tokens, BatchWriter& writer) const {
    switch (writer.value_bytes(kTokensTensor)) {
      case 1:
        return RoomOf<std::uint8_t>(tokens, writer);
      case 2:
        return RoomOf<std::uint16_t>(tokens, writer);
      default:
        return RoomOf<std::uint32_t>(tokens, writer);
    }
  }
  template <class T>
  std::byte* RoomOf(std::uint64_t tokens, BatchWriter& writer) const {
    return reinterpret_cast<std::byte*>(writer.AppendRoom<T>(kTokensTensor, tokens, view_.largest));
  }

  const TokensView& view_;
  const std::uint64_t width_;
  std::vector<DocumentPlace> places_;
};

std::unique_ptr<ExampleReader> TokensSource::NewReader() const {
  return std::make_unique<TokensReader>(*this);
}

std::unique_ptr<ElementReader> TokensSource::NewElementReader(std::size_t tensor) const {
  if (tensor != kTokensTensor) return nullptr;
  return std::make_unique<TokensPartReader>(*this);
}

/// The type of tokens in all files. InvalidArgument if it is not known, or is another one.
Result<DType> TypeOfTokens(const TokensIndex& index, const TokensOptions& options) {
  for (std::size_t f = 0; f < index.data().size(); ++f) {
    const TokensFile& file = index.DataFile(f);
    if (index.is_pairs() || file.form != TokensForm::kBare || options.dtype) continue;
    return InvalidArgument(fmt::format(
        "source.tokens.dtype: the key is missing; expected {}: {} has no header that says its type",
        kTokenTypes, Escaped(file.file.name)));
  }
  if (!index.dtype()) return options.dtype.value_or(DType::kUint8);  // of no file at all
  if (options.dtype.value_or(*index.dtype()) == *index.dtype()) return *index.dtype();
  const TokensFile& typed = index.files()[index.typed_file()];
  const bool idx = typed.form == TokensForm::kSequences;
  return InvalidArgument(fmt::format(
      "source.tokens.dtype: {} has tokens of {}, as {} says; got {}",
      Escaped(idx ? OtherHalf(typed.file.name) : typed.file.name), DTypeName(*index.dtype()),
      idx ? Escaped(typed.file.name) : "its header", DTypeName(*options.dtype)));
}

/// Where the tokens of each file are. DataLoss if the size of a bare file does not fit the type.
Result<RawLayout> LayoutOf(const TokensDataset& dataset, DType dtype,
                           const std::vector<std::string>& excluded,
                           const std::vector<bool>& is_excluded) {
  const TokensIndex& index = dataset.index();
  RawLayout layout;
  layout.dtype = dtype;
  const std::uint64_t width = DTypeSize(dtype);
  std::vector<std::string> needed;
  std::string what;
  for (std::size_t f = 0; f < index.data().size(); ++f) {
    const TokensFile& file = index.DataFile(f);
    layout.begins.push_back(file.begin);
    layout.tokens.push_back((file.file.size - file.begin) / width);
    if ((file.file.size - file.begin) % width == 0 || is_excluded[f]) continue;
    needed.push_back(file.file.name);
    what += fmt::format("{}{}: has {} bytes, which are no whole number of tokens of {}",
                        what.empty() ? "" : "; ", file.file.name, file.file.size, DTypeName(dtype));
  }
  if (needed.empty()) return layout;
  return DamagedFilesStatus(dataset.dir().string(), what, excluded, needed);
}

/// Which files with tokens are excluded. InvalidArgument if an X.idx is named.
Result<std::vector<bool>> ExcludedOf(const TokensIndex& index,
                                     const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!IsSequencesName(name)) continue;
    return InvalidArgument(fmt::format(
        "exclude.files: {} says where sequences are, and cannot be left out; exclude {}, after "
        "which the two are called",
        Escaped(name), Escaped(OtherHalf(name))));
  }
  std::vector<bool> excluded;
  for (std::size_t f = 0; f < index.data().size(); ++f) {
    excluded.push_back(std::find(names.begin(), names.end(), index.DataFile(f).file.name) !=
                       names.end());
  }
  return excluded;
}

Result<std::shared_ptr<const TokenDocuments>> DocumentsOf(
    const std::shared_ptr<const TokensDataset>& dataset, const RawLayout& layout,
    const TokensOptions& options, const std::vector<std::string>& excluded) {
  if (dataset->index().is_pairs()) return SequencesOf(dataset);
  if (!options.mark) return WholeFiles(layout);
  MILLRACE_ASSIGN_OR_RETURN(auto marked, dataset->FindMarked(*options.mark, layout, excluded));
  return MarkedOnes(std::move(marked));
}

Result<TokensView> ViewOf(std::shared_ptr<const TokensDataset> dataset, const PlanParts& parts) {
  MILLRACE_ASSIGN_OR_RETURN(const TokensOptions options,
                            ReadTokensOptions(parts.Get<SourcePart>().argument));
  const TokensIndex& index = dataset->index();
  const std::vector<std::string>& excluded = parts.Get<ExcludePart>().files;
  TokensView view;
  MILLRACE_ASSIGN_OR_RETURN(view.excluded, ExcludedOf(index, excluded));
  MILLRACE_ASSIGN_OR_RETURN(const DType dtype, TypeOfTokens(index, options));
  MILLRACE_ASSIGN_OR_RETURN(view.layout, LayoutOf(*dataset, dtype, excluded, view.excluded));
  if (view.layout.all_tokens() == 0) {
    return InvalidArgument(fmt::format("dataset {}: its files have no token: expected at least one",
                                       dataset->dir().string()));
  }
  view.largest = LargestTokenOf(dtype);
  view.has_vocab = options.vocab && *options.vocab - 1 < view.largest;
  if (view.has_vocab) view.largest = *options.vocab - 1;
  MILLRACE_ASSIGN_OR_RETURN(view.documents, DocumentsOf(dataset, view.layout, options, excluded));
  view.dataset = std::move(dataset);
  return view;
}

Result<std::shared_ptr<const Source>> MakeTokensSource(std::shared_ptr<const Dataset> dataset,
                                                       const PlanParts& parts) {
  auto view = ViewOf(std::static_pointer_cast<const TokensDataset>(std::move(dataset)), parts);
  if (!view.ok()) return AtKey(parts, view.status());
  auto source = std::make_shared<const TokensSource>(*std::move(view));
  MILLRACE_RETURN_IF_ERROR(source->CheckIntact());
  return std::shared_ptr<const Source>(std::move(source));
}

}  // namespace

SourceTable TokensSources() {
  SourceType tokens;
  tokens.name = kTokensKind;
  tokens.help = "a document of tokens";
  tokens.make = MakeTokensSource;
  tokens.argument = WithCheck(
      WithDefault(
          ParameterOf({ParamType::kTree}, "",
                      "of raw files, such as {dtype: uint16, eos: 50256}: dtype of files that do "
                      "not say it; a document ends with each token eos, or begins with each bos; "
                      "vocab: tokens are below it"),
          ParamTree{"{}"}),
      [](const ParamValue& value) { return ReadTokensOptions(value).status(); });
  return SourceTable({std::move(tokens)});
}

}  // namespace millrace
