// Edges of an example: base labels, and grouping by label straight into the columns of a batch.
//
// BaseEdgeLabels and the names are pure functions; EdgeGroups belongs to a thread and keeps its
// memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/batch/batch_writer.h"
#include "server/dataset/coq/scan/node_words.h"
#include "server/pipeline/closure/closure.h"

namespace millrace {

/// Labels of a dataset's edges after classes that mean the same are merged: the first conflatable
/// group is label 0, the second label 1, every other class, in order, the next one.
inline constexpr std::uint32_t kBaseEdgeLabels = 30;

/// Base label by class. That of constOpaqueDef is one that no edge carries.
const std::array<std::uint16_t, kEdgeClasses>& BaseEdgeLabels();

/// Name of each base label: that of its class; of the merged ones all names, joined by '|'.
std::vector<std::string> BaseEdgeLabelNames();

/// The tensors of a batch that edges go to.
struct EdgeColumns {
  std::size_t source;
  std::size_t target;
  std::size_t label;
};

class EdgeGroups {
 public:
  /// `label_of_class`: below `labels`; has to outlive the object.
  EdgeGroups(std::span<const std::uint16_t> label_of_class, std::uint32_t labels)
      : label_of_class_(label_of_class), places_(labels) {}

  /// Appends the edges of a closure grouped by label, in the order of recording within a label.
  /// REQUIRES: the classes of the edges have labels; the columns are of unsigned types.
  void Append(const Closure& closure, const EdgeColumns& columns, BatchWriter& writer);

 private:
  /// Where the next edge of a label goes: of the first half of the edges, and of the second.
  struct Places {
    std::uint32_t first;
    std::uint32_t second;
  };

  template <class Index>
  void AppendAs(const Closure& closure, const EdgeColumns& columns, BatchWriter& writer);
  template <class Index, class Label>
  void Scatter(const Closure& closure, const EdgeColumns& columns, BatchWriter& writer);

  std::span<const std::uint16_t> label_of_class_;
  std::vector<Places> places_;  // by label
};

}  // namespace millrace
