// The part of a source of roots that does not depend on the graphs found from them: the list of
// nodes and its columns.
//
// Thread-safe, as Source.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/base/result.h"
#include "server/kinds/graph/graph_source.h"

namespace millrace {

class RootListSource : public GraphSource {
 public:
  /// The node of a row of the list. DataLoss if it is not a node. REQUIRES: row < examples().
  Result<std::uint64_t> Root(std::uint64_t row) const;
  /// Prefetches the data of Root, before many roots are read.
  void AskForRoot(std::uint64_t row) const;

  ExampleDescription Describe(ExampleId id) const final;

 protected:
  /// `list`: nullptr for every node. `facts`: as for GraphSource, without name, examples and
  /// columns.
  RootListSource(std::shared_ptr<const GraphTables> tables, const GraphArray* list,
                 SourceFacts facts);

 private:
  std::int64_t ColumnValue(std::size_t column, std::uint64_t row) const final;

  const GraphArray* const list_;
};

}  // namespace millrace
