// The functions of plugins that a pipeline's tensors name, ready to be called.
//
// Values; thread-safe once they are made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/plan/tensors/function_calls.h"
#include "server/plan/tensors/function_source.h"
#include "server/plugin/plugin_registry.h"
#include "server/source/source.h"

namespace millrace {

/// The seed and the names from which the functions of a pipeline's tensors draw random numbers.
struct FunctionChance {
  std::uint64_t seed = 0;   // of operations without a seed
  std::string branch = {};  // whose tensors they are; empty: of the pipeline itself
};

class TensorFunctions {
 public:
  /// Starts the functions that something reads, over a source with these tensors. Takes no time if
  /// there are no functions. Errors of FunctionCalls, FunctionGraph and PluginRegistry::Pool;
  /// FailedPrecondition if there are functions and `plugins` is null.
  static Result<TensorFunctions> Open(const TensorsPart& part, const TensorReaders& readers,
                                      const Source& source, const FunctionChance& chance,
                                      std::shared_ptr<PluginRegistry> plugins);

  bool empty() const { return calls_.empty(); }
  /// The names of the definitions whose tensors AddPure adds.
  std::vector<std::string> PureOnes() const;

  /// The source with the tensors that depend on the example alone: it can be measured and cached.
  /// FailedPrecondition if two processes do not give the same bytes.
  Result<std::shared_ptr<const Source>> AddPure(std::shared_ptr<const Source> source) const;
  /// The source of AddPure with all other tensors that functions make: random ones, results of
  /// calls for whole batches, and tensors made from these.
  Result<std::shared_ptr<const Source>> AddOthers(std::shared_ptr<const Source> source) const;

  /// The rest of the pipeline's tensors over that source. `source`: the tensors of the source
  /// without functions.
  TensorsPart Rest(const std::vector<TensorSpec>& source) const { return calls_.Rest(source); }

 private:
  Result<std::shared_ptr<const Source>> Add(const std::vector<OpenedCall>& calls,
                                            std::shared_ptr<const Source> source) const;

  FunctionCalls calls_;
  std::shared_ptr<PluginRegistry> plugins_;
  std::vector<OpenedCall> pure_;
  std::vector<OpenedCall> others_;
};

}  // namespace millrace
