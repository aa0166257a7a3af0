// Labels of edges of Coq's graphs.
//
// Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "server/kinds/coq/scan/node_words.h"

namespace millrace {

/// Number of edge labels of a dataset after classes with the same meaning are merged. The first
/// merged group is label 0, the second is label 1, and the other classes follow in order.
inline constexpr std::uint32_t kBaseEdgeLabels = 30;

/// The base label of each class. constOpaqueDef has one too, but no edge carries it.
const std::array<std::uint16_t, kEdgeClasses>& BaseEdgeLabels();

/// The name of each base label: the name of its class, or, for a merged label, all names joined by
/// '|'.
std::vector<std::string> BaseEdgeLabelNames();

}  // namespace millrace
