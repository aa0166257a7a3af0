// The parts of a plan that decide which examples an epoch has, and in which order.
//
// Value types.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "server/source/split.h"

namespace millrace {

class Source;

/// Labels the examples, and takes the examples of some labels.
struct SplitPart {
  SplitOptions split;                             // absent in the file: disabled
  std::optional<std::vector<std::int64_t>> take;  // labels whose examples are taken; absent: all
};

/// An example passes if its value in a column is not 0, or, with `zero`, if it is.
struct ColumnCondition {
  std::string column;
  bool zero = false;
};

/// Whether an epoch has the example. Pure. Called once for each example when a plan is compiled.
using ExamplePredicate = std::function<bool(const Source& source, ExampleId example)>;

/// Leaves examples out before anything is built. An example has to pass every condition.
struct FilterPart {
  std::vector<ColumnCondition> conditions;
  std::vector<ExamplePredicate> predicates;
  std::string where;  // an expression over columns that must not be 0; empty: no condition
};

/// Cuts long examples into several, which orders count in place of examples.
struct ChunkPart {
  std::string tensor;      // whose elements are counted, as expressions write it; empty: no chunks
  std::uint64_t size = 0;  // elements of a chunk, at most
  std::uint64_t step = 0;  // from the start of a chunk to the next start; 1 to size
};

/// Packs documents into rows of one size, which orders count in place of examples. Documents are the
/// selected examples.
struct PackPart {
  /// The pieces that `fit` makes of a document above `size`.
  enum class Above : std::uint8_t {
    kSplit,  // several pieces
    kCut,    // a piece with its first elements
    kDrop,   // nothing
  };

  std::string tensor;             // that fills rows, as expressions write it; empty: no packs
  std::vector<std::string> with;  // tensors with as many elements, which go where those go
  std::uint64_t size = 0;         // the most elements of a row
  bool fit = false;               // false: documents are cut where a row ends (`concat`)
  Above above = Above::kSplit;    // of `fit`
  std::uint64_t window = 4096;    // of `fit`: the most documents that are packed together
  std::vector<std::int64_t> before;  // elements put before every document
  std::vector<std::int64_t> after;   // and after it
  std::optional<std::uint64_t> seed;  // absent: documents are packed in index order
};

struct ShufflePart {
  std::optional<std::int64_t> seed;  // absent: examples come in index order
  std::uint64_t block = 0;           // neighbours that stay in one block; 0: no blocks
  std::uint64_t window = 16;         // blocks whose examples are mixed
};

/// Batches of examples with values between two bounds. Either bounds or count is given, and either
/// budget or size.
struct BucketPart {
  std::string by;                     // a column, or an expression over columns
  std::vector<std::uint64_t> bounds;  // ascending
  std::uint64_t count = 0;            // of bounds, to be chosen; 0: they are given
  std::uint64_t budget = 0;           // a batch's rows times its bound, at most; 0: size is given
  std::uint64_t size = 0;             // rows of a batch
  std::uint64_t max_size = 0;         // rows of a batch, at most; 0: no limit
  std::uint64_t together = 1;         // batches of a bucket that stay side by side
  bool drop_above = false;            // leaves out rows that no bucket holds, in place of an error
};

/// How an epoch becomes steps. Exactly one of size, global_size and bucket is given.
struct BatchPart {
  std::uint64_t size = 0;            // per rank; 0: not given
  std::uint64_t global_size = 0;     // per step over all ranks; 0: not given
  std::optional<BucketPart> bucket;  // a batch's examples are of one bucket
  bool keep = false;                 // true for `remainder: keep`
};

/// Deals the examples of some batches anew, so that their sums are about equal.
struct BalancePart {
  std::string by;            // a column, or an expression over columns; empty: no balance
  std::uint64_t group = 64;  // batches that share their examples
};

/// Identifies columns that are measured.
struct MeasurePart {
  Digest128 operations;  // all that decide what is built from an example
};

/// Examples that keep their places in an epoch, but are dropped there.
struct ExcludePart {
  std::vector<std::string> files;       // names as in the dataset; their examples are dropped
  std::vector<std::uint64_t> examples;  // ids, ascending; of whole examples, if there are chunks
};

}  // namespace millrace
