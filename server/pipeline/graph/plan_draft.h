// A plan under construction: it collects the settings of all stages of a pipeline. Each stage's
// `compile` fills in its own part; Plan::Compile reads the whole.
//
// Value type; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "server/dataset/split.h"
#include "server/pipeline/closure/closure_options.h"

namespace millrace {

class Pipeline;
class Source;

/// Decides which examples the plan numbers, and which of the numbered ones are left out before
/// anything is built.
struct FilterOptions {
  bool exclude_none_arguments = false;
  bool exclude_not_faithful = false;
  std::uint32_t required_tactic_occurrence = 1;  // at least 1
  bool restrict_to_spine = false;
};

struct EdgeOptions {
  Symmetrization symmetrization = Symmetrization::kBidirectional;
  bool add_self_edges = true;
};

/// Exactly one of the two sizes is given; the other is 0.
struct BatchOptions {
  std::uint64_t size = 0;         // per rank
  std::uint64_t global_size = 0;  // per step over all ranks
  bool keep = false;              // true for `remainder: keep`
};

enum class GlobalContextField : std::uint8_t { kReference, kFull, kOmitted };

struct FieldOptions {
  GlobalContextField global_context = GlobalContextField::kReference;
  bool text = false;
};

/// Whether an epoch has the example. Pure. Called once for each example when a plan is compiled.
using ExamplePredicate = std::function<bool(const Source& source, ExampleId example)>;

class PlanDraft {
 public:
  /// Runs `compile` of every stage of the pipeline, in order.
  static Result<PlanDraft> FromPipeline(const Pipeline& pipeline);

  std::string source;                             // "proof_states", …
  SplitOptions split;                             // absent in the file: disabled
  std::optional<std::vector<std::int64_t>> take;  // labels whose examples are taken; absent: all
  FilterOptions filter;
  std::optional<std::int64_t> shuffle_seed;  // absent: examples come in index order
  ClosureOptions closure;
  EdgeOptions edges;
  BatchOptions batch;
  FieldOptions fields;
  std::vector<std::string> excluded_files;   // names as in the dataset
  std::vector<ExamplePredicate> predicates;  // of further stages; an example has to pass all

  std::optional<ClosureKernel> closure_kernel;  // absent: chosen by the size of the data
};

}  // namespace millrace
