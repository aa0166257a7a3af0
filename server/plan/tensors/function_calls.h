// The uses of `python` among the tensors of a pipeline. To the graph of tensors, a function's
// result is a tensor of the source; this finds which calls are needed, in which order they can run,
// and which of the pipeline's tensors remain without them.
//
// Value types and pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "common/operations/python_function.h"
#include "server/source/tensors_part.h"

namespace millrace {

/// The readers of a pipeline's tensors besides its own outputs.
struct TensorReaders {
  std::set<std::string> columns;  // names of columns, such as "mel.length"
  /// For the tensors of a branch, the tensors that the mix reads; absent: all that nothing else in
  /// the branch reads.
  std::optional<std::set<std::string>> mix;
};

/// One use of `python`.
struct FunctionCall {
  std::string tensor;  // its name in the pipeline
  PythonFunction function;
  /// The paths of its results, one for each of function.outputs: "mel", or "feat/mel" if it makes
  /// several, or "mel/raw" if steps such as `dtype` follow.
  std::vector<std::string> paths;
  std::set<std::string> needs;  // the calls that it reads, also by way of other tensors
};

class FunctionCalls {
 public:
  /// InvalidArgument, with the place in the pipeline, for a use that contradicts itself.
  static Result<FunctionCalls> Find(const TensorsPart& part, const TensorReaders& readers);

  bool empty() const { return calls_.empty(); }
  /// The calls that something reads. Each comes after the calls that it needs.
  const std::vector<FunctionCall>& calls() const { return calls_; }
  /// The definitions of the part that the calls leave over; without unread definitions, if there
  /// are such calls.
  const TensorsPart& others() const { return others_; }
  /// The rest of the part over a source that has the calls' tensors besides `source`, its own.
  TensorsPart Rest(const std::vector<TensorSpec>& source) const;

 private:
  std::vector<FunctionCall> calls_;
  TensorsPart others_;
  std::set<std::string> read_by_calls_;  // dotted names
};

/// The modules of all functions that the part names, read or not; sorted.
std::set<std::string> ModulesCalled(const TensorsPart& part);

}  // namespace millrace
