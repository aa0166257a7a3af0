// Kept layouts of packed rows. Whatever is accepted has one text, and rows, documents and columns
// can be asked for, though the layout may not be that of the lengths: the answer is then an error.
#include <algorithm>
#include <memory>
#include <span>

#include "common/base/hash.h"
#include "server/plan/pack/layout_bytes.h"
#include "server/plan/pack/make_layout.h"
#include "server/plan/pack/pack_rows.h"
#include "tests/fuzz/digested_bytes.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace millrace;

constexpr Digest128 kKey{1, 2};
constexpr std::uint64_t kDocuments = 600;

class FuzzLengths final : public DocumentLengths {
 public:
  std::uint64_t documents() const override { return kDocuments; }
  void Read(std::uint64_t first, std::span<std::uint64_t> lengths) const override {
    for (std::uint64_t& length : lengths) {
      length = first * first * 7 % 40 * (first % 97 == 5 ? 20 : 1);
      ++first;
    }
  }
};

const std::vector<PackOptions>& AllOptions() {
  static const std::vector<PackOptions> options = {
      {16, PackMethod::kFit, PackAbove::kSplit, 50},
      {16, PackMethod::kFit, PackAbove::kDrop, 1000},
      {64, PackMethod::kFit, PackAbove::kCut, 3},
      {1, PackMethod::kFit, PackAbove::kSplit, 300},
      {16, PackMethod::kConcat, PackAbove::kSplit, 1},
      {1000, PackMethod::kConcat, PackAbove::kSplit, 1},
  };
  return options;
}

/// Whether an answer is one, or says why not.
template <class Answer>
void Answered(const Answer& answer, const char* what) {
  fuzz::Require(answer.ok() || answer.status().code() == StatusCode::kDataLoss, what);
}
void Answered(const Status& status, const char* what) {
  fuzz::Require(status.ok() || status.code() == StatusCode::kDataLoss, what);
}

void Use(const PackLayout& layout) {
  const auto rows = PackRows::Make(std::make_shared<const PackLayout>(layout),
                                   std::make_shared<const FuzzLengths>(), 5000);
  const std::uint64_t some = std::min<std::uint64_t>(layout.rows(), 100);
  std::vector<Piece> pieces;
  for (std::uint64_t i = 0; i < some; ++i) {
    for (const std::uint64_t row : {i, layout.rows() - 1 - i}) {
      pieces.clear();
      const Status status = rows->AppendPieces(row, pieces);
      Answered(status, "the pieces of a row are an error of data, or there");
      fuzz::Require(!status.ok() || !pieces.empty(), "a row has a piece");
    }
  }
  std::vector<RowColumns> columns(some);
  Answered(rows->ReadColumns(layout.rows() - some, columns), "columns are an error, or there");
  for (std::uint64_t i = 0; i < kDocuments; i += 7) {
    Answered(rows->RowsOf(i), "the rows of a document are an error, or there");
  }
}

void Decode(std::span<const std::byte> bytes) {
  for (const PackOptions& options : AllOptions()) {
    const Result<PackLayout> layout = DecodePackLayout(bytes, kKey, options, kDocuments);
    if (!layout.ok()) continue;
    const std::vector<std::byte> again = EncodePackLayout(*layout, kKey);
    fuzz::Require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
                  "a layout has one text");
    Use(*layout);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::byte> bytes = millrace::fuzz::BytesOf(data, size);
  Decode(bytes);
  Decode(millrace::fuzz::WithDigest(bytes));
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  for (const PackOptions& options : AllOptions()) {
    const PackLayout layout = MakePackLayout(FuzzLengths(), options, {.threads = 1}).value();
    const std::vector<std::byte> bytes = EncodePackLayout(layout, kKey);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    seeds.push_back(text);
    seeds.push_back(text.substr(0, text.size() - 16));
  }
  return seeds;
}
