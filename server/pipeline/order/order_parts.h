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
#include "server/dataset/split.h"

namespace millrace {

class Source;

/// Labels the examples, and takes those of some labels.
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

/// Leaves examples out before anything is built. An example has to pass all.
struct FilterPart {
  std::vector<ColumnCondition> conditions;
  std::vector<ExamplePredicate> predicates;
  std::string where;  // an expression over columns that must not be 0; empty: none
};

struct ShufflePart {
  std::optional<std::int64_t> seed;  // absent: examples come in index order
};

/// How an epoch becomes steps. Exactly one of the two sizes is given; the other is 0.
struct BatchPart {
  std::uint64_t size = 0;         // per rank
  std::uint64_t global_size = 0;  // per step over all ranks
  bool keep = false;              // true for `remainder: keep`
};

/// Examples that keep their places in an epoch, but are dropped there.
struct ExcludePart {
  std::vector<std::string> files;  // names as in the dataset
};

}  // namespace millrace
