// Whether functions give the same bytes in another process, found by building some examples twice.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/source/source.h"

namespace millrace {

/// The results of functions for an example.
struct FunctionProbe {
  ExampleId id;
  std::vector<Digest128> tensors;  // empty if it was not built
  std::string failure = {};        // why not, if a function is the reason
};

/// Builds examples one by one, as in epoch 0. `first` is the number of the first tensor that is
/// compared. Errors other than errors of the functions.
Result<std::vector<FunctionProbe>> BuildProbes(const Source& source, std::size_t first,
                                               std::span<const ExampleId> ids);

/// The first difference between the same examples: "example 17, tensor mel". `tensors`: the
/// compared tensors.
std::optional<std::string> FirstDifference(std::span<const TensorSpec> tensors,
                                           std::span<const FunctionProbe> a,
                                           std::span<const FunctionProbe> b);

/// Lines with the results of the first, the middle and the last example. `here` and `there` have
/// the same functions over `source`, in other processes. FailedPrecondition if they differ.
Result<std::string> ProbeFunctions(const Source& here, const Source& there, const Source& source);

}  // namespace millrace
