// Whether a plugin gives the same bytes in another process, found by building some examples twice.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plugin/plugin_pool.h"

namespace millrace {

/// The outcome of an example.
struct ProbedExample {
  std::uint64_t id = 0;
  RowOutcome outcome = RowOutcome::kUnknown;
  std::vector<Digest128> tensors;  // of extent and bytes of each, if it was built
};

/// Builds the examples of a source in this order, all in their epoch 0. Errors of
/// PluginPool::Build.
Result<std::vector<ProbedExample>> ProbeExamples(PluginPool& pool,
                                                 std::span<const std::uint64_t> ids,
                                                 const std::stop_token& stop = {});

/// The first example that differs: "example 17, tensor x". nullopt if all agree. `tensors` are the
/// tensors of the source. REQUIRES: both have the same ids in the same order.
std::optional<std::string> FirstDifference(std::span<const PluginTensor> tensors,
                                           std::span<const ProbedExample> a,
                                           std::span<const ProbedExample> b);

/// 0, n/2 and n - 1 of n examples, each once.
std::vector<std::uint64_t> ExamplesToProbe(std::uint64_t examples);
/// `count` examples, or all, evenly from the first to the last.
std::vector<std::uint64_t> SpreadExamples(std::uint64_t examples, std::uint64_t count);

}  // namespace millrace
