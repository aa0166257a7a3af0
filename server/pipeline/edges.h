// Edges of an example: base labels, and grouping by label.
//
// Pure functions; EdgeGroups belongs to a thread and keeps its memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/dataset/node_words.h"
#include "server/pipeline/closure.h"

namespace millrace {

/// Labels of a dataset's edges after classes that mean the same are merged: the first conflatable
/// group is label 0, the second label 1, every other class, in order, the next one.
inline constexpr std::uint32_t kBaseEdgeLabels = 30;

/// Base label by class; kSkippedEdge for constOpaqueDef, which has a label that no edge carries.
const std::array<std::uint32_t, kEdgeClasses>& BaseEdgeLabels();

/// Name of each base label: that of its class; of the merged ones all names, joined by '|'.
std::vector<std::string> BaseEdgeLabelNames();

/// Edges grouped by label, in the order of recording within a label: three columns.
class EdgeGroups {
 public:
  void Assign(const Closure& closure);

  std::span<const std::uint32_t> sources() const { return {sources_.data(), size_}; }
  std::span<const std::uint32_t> targets() const { return {targets_.data(), size_}; }
  std::span<const std::uint32_t> labels() const { return {labels_.data(), size_}; }

 private:
  std::size_t size_ = 0;
  std::vector<std::uint32_t> sources_;
  std::vector<std::uint32_t> targets_;
  std::vector<std::uint32_t> labels_;
  std::vector<std::uint32_t> next_;  // place of the next edge of each label
};

}  // namespace millrace
