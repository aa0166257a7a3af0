// The edges of an example: base labels, and grouping by label directly into the columns of a batch.
//
// BaseEdgeLabels and the names are pure functions. An EdgeGroups belongs to one thread and keeps
// its memory.
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

/// Number of edge labels of a dataset after classes with the same meaning are merged. The first
/// merged group is label 0, the second is label 1, and the other classes follow in order.
inline constexpr std::uint32_t kBaseEdgeLabels = 30;

/// The base label of each class. constOpaqueDef has one too, but no edge carries it.
const std::array<std::uint16_t, kEdgeClasses>& BaseEdgeLabels();

/// The name of each base label: the name of its class, or, for a merged label, all names joined by
/// '|'.
std::vector<std::string> BaseEdgeLabelNames();

/// The tensors of a batch that hold edges.
struct EdgeColumns {
  std::size_t source;
  std::size_t target;
  std::size_t label;
};

class EdgeGroups {
 public:
  /// `label_of_class` has values below `labels`. It must outlive the object.
  EdgeGroups(std::span<const std::uint16_t> label_of_class, std::uint32_t labels)
      : label_of_class_(label_of_class), places_(labels) {}

  /// Appends the edges of a closure, grouped by label; within a label they keep the order in which
  /// they were recorded. REQUIRES: the classes of the edges have labels; the columns have unsigned
  /// types.
  void Append(const Closure& closure, const EdgeColumns& columns, BatchWriter& writer);

 private:
  /// The places of the next edges of a label: one for the first half of the edges, one for the
  /// second.
  struct Places {
    std::uint32_t first;
    std::uint32_t second;
  };

  template <class Index>
  void AppendAs(const Closure& closure, const EdgeColumns& columns, BatchWriter& writer);
  template <class Index, class Label>
  void Scatter(const Closure& closure, const EdgeColumns& columns, BatchWriter& writer);

  std::span<const std::uint16_t> label_of_class_;
  std::vector<Places> places_;  // one for each label
};

}  // namespace millrace
