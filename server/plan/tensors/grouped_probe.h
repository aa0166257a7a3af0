// Whether examples depend on the other examples of their group, found by building some of them in
// groups of different sizes.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plan/tensors/function_probe.h"
#include "server/source/source.h"

namespace millrace {

struct GroupOptions {
  std::size_t size = 1;           // examples that are built at once
  std::size_t most_failures = 1;  // after so many, no further group is built
  /// Called for each example, in their order.
  std::function<void(const FunctionProbe&)> on_example;
};

struct GroupedProbes {
  std::vector<FunctionProbe> examples;  // in the order of the ids; fewer if too many failed
  std::uint64_t bytes = 0;              // of all groups, if no example failed
};

/// Builds examples as in epoch 0. A group with an example that fails is built one by one. The
/// examples of a source whose batches are merged are built one by one, too. Errors other than
/// errors of the functions.
Result<GroupedProbes> BuildInGroups(const Source& source, std::span<const ExampleId> ids,
                                    const GroupOptions& options);

}  // namespace millrace
