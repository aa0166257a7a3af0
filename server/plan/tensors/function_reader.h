// Reads examples of a source, and calls functions on them.
//
// Belongs to one thread; must not outlive the source and the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "server/plan/tensors/function_graph.h"
#include "server/plan/tensors/function_source.h"
#include "server/plugin/plugin_pool.h"
#include "server/source/source.h"

namespace millrace {

/// The work of a reader besides reading. Immutable.
struct FunctionPlan {
  std::vector<OpenedCall> calls;
  FunctionGraph graph;
  std::vector<std::vector<std::size_t>> numbers;  // of the calls' tensors, among all
  DropReason dropped = {};
  std::stop_token stop;
};

class FunctionReader final : public ExampleReader {
 public:
  FunctionReader(const Source& source, const FunctionPlan& plan);

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override;

 private:
  /// A tensor of the source that is copied.
  struct Copied {
    std::size_t number;
    std::size_t row_bytes;
    std::optional<std::size_t> splits;  // number of its splits; nullopt: one row per example
  };

  /// Reads the examples that no function has dropped yet, and calls the functions. True if a
  /// function before the last one has dropped more, so that all must be done again.
  Result<bool> Build(std::span<const ExampleId> ids, const BatchWriter& writer);
  Result<PluginReply> Call(std::size_t number, const BatchWriter& writer);
  /// Keeps the results of a call for the calls that read them.
  void Keep(std::size_t number, const PluginReply& reply);
  Status Emit(std::span<const ExampleId> ids, BatchWriter& writer);
  void CopyRow(std::size_t row, BatchWriter& writer);
  void AppendMade(std::size_t row, BatchWriter& writer);

  const FunctionPlan& plan_;
  std::unique_ptr<BufferPool> pool_;
  BatchWriter examples_;
  std::unique_ptr<ExampleReader> reader_;
  std::vector<Copied> copied_;
  FunctionGraph::Run run_;
  PluginRequest request_;
  std::vector<bool> dropped_;          // by the functions; of each id
  std::vector<std::uint64_t> passes_;  // of the ids; empty if all belong to the epoch
  std::vector<std::uint64_t> chunks_;  // of the ids; empty if examples are not cut
  std::vector<std::size_t> row_ids_;   // of each row of the examples, the number of its id
  std::optional<PluginReply> last_;    // of the last call; it holds a process
};

}  // namespace millrace
