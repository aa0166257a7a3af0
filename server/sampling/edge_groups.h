// Groups the edges of an example by label, directly into the tensors of a batch.
//
// An EdgeGroups belongs to one thread and keeps its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/batch/batch_writer.h"
#include "server/sampling/closure.h"
#include "server/sampling/label_places.h"

namespace millrace {

/// The tensors of a batch that hold edges.
struct EdgeTensors {
  std::size_t source = 0;
  std::size_t target = 0;
  std::optional<std::size_t> label = {};  // nullopt: all edges have label 0
};

class EdgeGroups {
 public:
  /// `label_of_class` has values below `labels`. It must outlive the object.
  EdgeGroups(std::span<const std::uint16_t> label_of_class, std::uint32_t labels);

  /// Appends the edges of a closure, grouped by label; within a label they keep the order in which
  /// they were recorded. REQUIRES: the classes of the edges have labels; the tensors have unsigned
  /// types; without a tensor of labels, there is one label.
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
  std::uint32_t labels_;
  // One of the two is used: a place for each label, or, for many labels, only for present ones.
  std::vector<Places> places_;
  std::optional<LabelPlaces> of_many_;
};

}  // namespace millrace
