// The rows into which a plan packs the examples of a source (`pack`), and which it then counts as
// examples. The examples that are packed are called *documents*: they are those that the split and
// the filter select.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace millrace {

class Source;

/// The elements [begin, begin + length) of a document, which lie in one row.
struct RowPiece {
  ExampleId document;  // by its id in the source of documents
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  friend bool operator==(const RowPiece&, const RowPiece&) = default;
};

/// The rows that have pieces of a document, or why there are none.
struct RowsOfDocument {
  enum class Why : std::uint8_t {
    kHasRows,
    kFiltered,  // the split or a filter leaves it out
    kAbove,     // it has more elements than a row, and is left out for that
    kEmpty,     // it has no elements
    kNotBuilt,  // it could not be built when lengths were measured
  };
  /// The rows [first, first + count).
  struct Run {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  Why why = Why::kHasRows;
  std::vector<Run> runs;  // ascending, with gaps between them
};

/// Numbers of documents and rows, for people.
struct PackSummary {
  std::uint64_t source_examples = 0;              // from which documents were selected
  std::vector<std::uint64_t> examples_per_split;  // by label
  std::uint64_t filtered = 0;                     // left out by filters
  std::uint64_t documents = 0;
  std::uint64_t empty = 0;      // documents without elements
  std::uint64_t not_built = 0;  // documents that could not be built; not among the empty ones
  std::uint64_t above = 0;      // documents of more elements than a row has
  std::uint64_t rows = 0;
  std::uint64_t pieces = 0;
  std::uint64_t elements = 0;  // in rows
  std::uint64_t left_out = 0;  // elements in no row
  std::uint64_t padding = 0;   // elements that rows lack
};

/// Immutable; thread-safe.
class DocumentPacks {
 public:
  virtual ~DocumentPacks() = default;

  /// The source of documents. It lives as long as this.
  virtual const Source& documents() const = 0;
  virtual const PackSummary& summary() const = 0;
  /// The pieces of a row, in its order. REQUIRES: there is such a row.
  virtual Result<std::vector<RowPiece>> PiecesOf(ExampleId row) const = 0;
  /// Those of them that a batch of this epoch has: a document that is dropped has none there. Reads
  /// the row's documents. REQUIRES: there is such a row.
  virtual Result<std::vector<RowPiece>> PiecesIn(std::uint64_t epoch, ExampleId row) const = 0;
  /// The rows of an example of documents(). REQUIRES: it has the example.
  virtual Result<RowsOfDocument> RowsOf(ExampleId document) const = 0;
  /// The split label of an example of documents(). REQUIRES: it has the example.
  virtual std::uint32_t SplitLabel(ExampleId document) const = 0;
};

/// Why a document is in no row: "filtered", "above", "empty" or "not built"; empty if it has rows.
constexpr std::string_view WhyNoRow(RowsOfDocument::Why why) {
  switch (why) {
    case RowsOfDocument::Why::kHasRows:
      break;
    case RowsOfDocument::Why::kFiltered:
      return "filtered";
    case RowsOfDocument::Why::kAbove:
      return "above";
    case RowsOfDocument::Why::kEmpty:
      return "empty";
    case RowsOfDocument::Why::kNotBuilt:
      return "not built";
  }
  return {};
}

}  // namespace millrace
