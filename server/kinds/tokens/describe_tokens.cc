#include "server/kinds/tokens/describe_tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/files/dataset_files.h"
#include "server/kinds/tokens/format/token_copy.h"
#include "server/kinds/tokens/token_documents.h"

namespace millrace {
namespace {

/// Names of files are listed up to this many.
constexpr std::size_t kListedTokenFiles = 1000;
/// Tokens of a file that a guess looks at.
constexpr std::uint64_t kLookedAt = 4096;
constexpr std::size_t kLengthsRead = 4096;

/// Counts documents by their lengths: 0, 1, 2 to 3, 4 to 7, and so on.
struct LengthHistogram {
  struct Bucket {
    std::uint64_t documents = 0;
    std::uint64_t tokens = 0;
  };
  std::array<Bucket, 65> buckets{};

  void Add(std::uint64_t length) {
    Bucket& bucket = buckets[static_cast<std::size_t>(std::bit_width(length))];
    ++bucket.documents;
    bucket.tokens += length;
  }
  std::string ToString() const {
    std::string text = fmt::format("{:<24}{:>14}{:>18}\n", "lengths", "documents", "tokens");
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      if (buckets[b].documents == 0) continue;
      const std::uint64_t least = b == 0 ? 0 : std::uint64_t{1} << (b - 1);
      const std::string range =
          b <= 1 ? std::to_string(least) : fmt::format("{} to {}", least, 2 * least - 1);
      text += fmt::format("  {:<22}{:>14}{:>18}\n", range, buckets[b].documents, buckets[b].tokens);
    }
    return text;
  }
};

LengthHistogram LengthsOf(const TokenDocuments& documents) {
  LengthHistogram histogram;
  std::vector<std::int64_t> lengths(kLengthsRead);
  for (std::uint64_t first = 0; first < documents.size(); first += kLengthsRead) {
    const auto some =
        std::span(lengths).first(std::min<std::uint64_t>(kLengthsRead, documents.size() - first));
    documents.ReadLengths(first, some);
    for (const std::int64_t length : some) histogram.Add(static_cast<std::uint64_t>(length));
  }
  return histogram;
}

std::string_view FormOf(const TokensFile& file) {
  switch (file.form) {
    case TokensForm::kNpy:
      return ", .npy";
    case TokensForm::kLlmc:
      return ", llm.c";
    case TokensForm::kBare:
      return ", no header";
    default:
      return "";
  }
}

std::string DescribeDataFile(const TokensIndex& index, std::size_t number) {
  const TokensIndex::Data& data = index.data()[number];
  const TokensFile& file = index.DataFile(number);
  std::string text = fmt::format("  {}: ", Escaped(file.file.name));
  if (data.sequences) {
    const TokensFile& idx = index.files()[*data.sequences];
    text += fmt::format("{} sequences, {} tokens, ", idx.sequences, idx.tokens);
  } else if (file.says_type()) {
    text += fmt::format("{} tokens, ", file.tokens);
  }
  return text + fmt::format("{} bytes{}\n", file.file.size, FormOf(file));
}

/// A file's values, if its bytes are numbers of a type.
class GuessedValues {
 public:
  /// Nothing if the file cannot be opened or does not have whole numbers.
  static std::optional<GuessedValues> Of(const TokensDataset& dataset, std::size_t data,
                                         DType dtype) {
    const TokensFile& file = dataset.index().DataFile(data);
    const std::uint64_t bytes = file.file.size - file.begin;
    if (bytes == 0 || bytes % DTypeSize(dtype) != 0) return std::nullopt;
    const auto mapped = dataset.OpenData(data);
    if (!mapped.ok()) return std::nullopt;
    return GuessedValues((*mapped)->bytes().subspan(file.begin), dtype);
  }

  std::uint64_t size() const { return bytes_.size() / DTypeSize(dtype_); }
  std::int64_t At(std::uint64_t number) const {
    return TokenAt(dtype_, bytes_.subspan(number * DTypeSize(dtype_)));
  }
  /// Whether the first values may be tokens of a vocabulary below 2^24.
  bool MayBeTokens() const {
    for (std::uint64_t i = 0; i < std::min(size(), kLookedAt); ++i) {
      if (At(i) < 0 || At(i) >> 24 != 0) return false;
    }
    return true;
  }

 private:
  GuessedValues(std::span<const std::byte> bytes, DType dtype) : bytes_(bytes), dtype_(dtype) {}

  std::span<const std::byte> bytes_;
  DType dtype_;
};

/// Whether all files that have a byte may hold such tokens.
bool AllMayHave(const TokensDataset& dataset, DType dtype) {
  for (std::size_t f = 0; f < dataset.index().data().size(); ++f) {
    if (dataset.index().DataFile(f).file.size == 0) continue;
    const auto values = GuessedValues::Of(dataset, f, dtype);
    if (!values || !values->MayBeTokens()) return false;
  }
  return true;
}

/// The type that bare files may have: the widest that gives small numbers everywhere.
DType GuessType(const TokensDataset& dataset) {
  for (const DType dtype : {DType::kUint32, DType::kUint16}) {
    if (AllMayHave(dataset, dtype)) return dtype;
  }
  return DType::kUint8;
}

/// "eos: 50256" if all files end with this token; otherwise "bos: …" if all begin with one.
std::string GuessMark(const TokensDataset& dataset, DType dtype) {
  std::optional<std::int64_t> first;
  std::optional<std::int64_t> last;
  bool same_first = true;
  bool same_last = true;
  for (std::size_t f = 0; f < dataset.index().data().size(); ++f) {
    const auto values = GuessedValues::Of(dataset, f, dtype);
    if (!values) continue;
    const std::int64_t begins = values->At(0);
    const std::int64_t ends = values->At(values->size() - 1);
    same_first = same_first && first.value_or(begins) == begins;
    same_last = same_last && last.value_or(ends) == ends;
    first = begins;
    last = ends;
  }
  if (last && same_last && *last >= 0) return fmt::format("eos: {}", *last);
  if (first && same_first && *first >= 0) return fmt::format("bos: {}", *first);
  return {};
}

/// Tokens of all files whose type is known.
std::uint64_t KnownTokens(const TokensIndex& index) {
  std::uint64_t tokens = index.tokens();
  for (const TokensFile& file : index.files()) {
    if (file.form == TokensForm::kBare) tokens += file.file.size / DTypeSize(*index.dtype());
  }
  return tokens;
}

std::string DescribeKnown(const std::shared_ptr<const TokensDataset>& dataset) {
  const TokensIndex& index = dataset->index();
  std::string text = fmt::format(
      "tokens           {}\n"
      "dtype            {}\n",
      KnownTokens(index), DTypeName(*index.dtype()));
  if (!index.is_pairs()) return text;
  const auto sequences = SequencesOf(dataset);
  if (!sequences.ok()) return text + sequences.status().message() + "\n";
  return text + fmt::format("longest          {}\n", (*sequences)->longest()) +
         LengthsOf(**sequences).ToString();
}

}  // namespace

std::string DescribeTokens(const std::shared_ptr<const TokensDataset>& dataset) {
  const TokensIndex& index = dataset->index();
  std::string text = fmt::format(
      "files            {}\n"
      "bytes            {}\n"
      "digest           {}\n"
      "documents        {}{}\n",
      index.data().size(), index.bytes(), dataset->digest().ToHex(), dataset->examples(),
      index.is_pairs() ? "" : ": each file is one; eos or bos cuts them");
  text += index.dtype() ? DescribeKnown(dataset)
                        : std::string("dtype            not known: no file says it\n");
  text += "files\n";
  for (std::size_t f = 0; f < std::min(index.data().size(), kListedTokenFiles); ++f) {
    text += DescribeDataFile(index, f);
  }
  if (index.data().size() > kListedTokenFiles) {
    text += fmt::format("  and {} more\n", index.data().size() - kListedTokenFiles);
  }
  for (const OmittedFile& file : index.left_out()) {
    text += fmt::format("  left out: {}\n", file.file.ToString());
  }
  return text + DescribeLinkedFolders(dataset->dir());
}

std::string SuggestTokensSource(const TokensDataset& dataset) {
  const TokensIndex& index = dataset.index();
  if (index.is_pairs()) return "source: tokens\n";
  std::vector<std::string> keys;
  std::string guessed;
  const DType dtype = index.dtype() ? *index.dtype() : GuessType(dataset);
  const bool bare = std::any_of(
      index.files().begin(), index.files().end(),
      [](const TokensFile& file) { return file.form == TokensForm::kBare && file.file.size > 0; });
  if (bare) keys.push_back(fmt::format("dtype: {}", DTypeName(dtype)));
  if (bare && !index.dtype()) guessed = "dtype, because it gives small numbers";
  if (const std::string mark = GuessMark(dataset, dtype); !mark.empty()) {
    keys.push_back(mark);
    guessed += fmt::format("{}{}, because all files {} with it", guessed.empty() ? "" : "; ", mark,
                           mark.starts_with("eos") ? "end" : "begin");
  }
  if (keys.empty()) return "source: tokens\n";
  if (!guessed.empty()) guessed = fmt::format("guessed          {}\n", guessed);
  return guessed + fmt::format("source: {{tokens: {{{}}}}}\n", fmt::join(keys, ", "));
}

}  // namespace millrace
