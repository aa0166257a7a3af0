// Groups the edges of an example by label, directly into the tensors of a batch.
//
// An EdgeGroups belongs to one thread and keeps its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/batch/batch_writer.h"
#include "server/pipeline/closure/closure.h"

namespace millrace {

/// The tensors of a batch that hold edges.
struct EdgeTensors {
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
  /// they were recorded. REQUIRES: the classes of the edges have labels; the tensors have unsigned
  /// types.
  void Append(const Closure& closure, const EdgeTensors& tensors, BatchWriter& writer);

 private:
  /// The places of the next edges of a label: one for the first half of the edges, one for the
  /// second.
  struct Places {
    std::uint32_t first;
    std::uint32_t second;
  };

  template <class Index>
  void AppendAs(const Closure& closure, const EdgeTensors& tensors, BatchWriter& writer);
  template <class Index, class Label>
  void Scatter(const Closure& closure, const EdgeTensors& tensors, BatchWriter& writer);

  std::span<const std::uint16_t> label_of_class_;
  std::vector<Places> places_;  // one for each label
};

}  // namespace millrace
