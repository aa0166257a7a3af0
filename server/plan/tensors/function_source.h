// A source with more tensors, which functions of plugins make from its own, for one example after
// another or for a whole batch. An example for which a function raises an exception that its `drop`
// names is dropped.
//
// Immutable; thread-safe.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/plan/tensors/function_calls.h"
#include "server/plan/tensors/function_graph.h"
#include "server/plugin/plugin_pool.h"
#include "server/source/source.h"

namespace millrace {

/// A call, with the processes that run it.
struct OpenedCall {
  FunctionCall call;
  PluginObject object;
  std::shared_ptr<PluginPool> pool;
};

/// `calls`: each comes after the calls that it needs, unless the source has their tensors; at least
/// one. `graph` was bound to the same calls and the source's tensors. `probe`: the results of
/// examples here, which are part of the source's code. InvalidArgument for two tensors of one name.
/// Readers give up when `stop` is requested.
Result<std::shared_ptr<const Source>> MakeFunctionSource(
    const std::shared_ptr<const Source>& source, std::vector<OpenedCall> calls,
    FunctionGraph graph, const std::string& probe, std::stop_token stop);

}  // namespace millrace
