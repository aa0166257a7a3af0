// Names of the examples of a graph dataset.
//
// A name is made of the digests of all arrays from which batches of the plan are read, and of the
// nodes where the example begins and ends. So lists of nodes, and features that the plan does not
// read, may change. Rows of targets follow the number of the example in its list: if the plan has
// targets, that number is in the name too.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "common/base/ids.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/graph_tables.h"
#include "server/source/example_names.h"

namespace millrace {

class GraphNames {
 public:
  explicit GraphNames(const GraphTables& tables);

  /// `nodes`: from which the graph is found.
  Digest128 Of(const GraphRange& nodes, std::uint64_t row) const;

 private:
  Digest128 arrays_;
  bool by_row_;  // something of an example is found by its row
};

/// The names of a source whose example is found from the nodes that `nodes_of(row)` gives, a
/// Result<GraphRange>.
template <class NodesOf>
class GraphExampleNames final : public ExampleNames {
 public:
  GraphExampleNames(const GraphTables& tables, NodesOf nodes_of)
      : names_(tables), nodes_of_(std::move(nodes_of)) {}

  void Name(std::span<const ExampleId> ids, std::span<Digest128> names) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Result<GraphRange> nodes = nodes_of_(ids[i].value());
      names[i] = nodes.ok() ? names_.Of(*nodes, ids[i].value()) : Digest128{};
    }
  }

 private:
  const GraphNames names_;
  const NodesOf nodes_of_;
};

}  // namespace millrace
