#include "server/dataset/coq/source/edges.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace millrace {
namespace {

constexpr std::array<std::string_view, kEdgeClasses> kClassNames = {
    "contextElem",      "contextSubject", "contextDefType",    "contextDefTerm", "constType",
    "constUndef",       "constDef",       "constOpaqueDef",    "constPrimitive", "indType",
    "indConstruct",     "indProjection",  "projTerm",          "constructTerm",  "castTerm",
    "castType",         "prodType",       "prodTerm",          "lambdaType",     "lambdaTerm",
    "letInDef",         "letInType",      "letInTerm",         "appFun",         "appArg",
    "caseTerm",         "caseReturn",     "caseBranchPointer", "caseInd",        "cBConstruct",
    "cBTerm",           "fixMutual",      "fixReturn",         "fixFunType",     "fixFunTerm",
    "coFixMutual",      "coFixReturn",    "coFixFunType",      "coFixFunTerm",   "relPointer",
    "evarSubstPointer", "evarSubstTerm",  "evarSubstTarget",   "evarSubject"};

// The classes of each group that is merged into one label.
constexpr std::array<std::uint32_t, 9> kTypeGroup = {2, 4, 9, 15, 16, 18, 21, 33, 37};
constexpr std::array<std::uint32_t, 7> kTermGroup = {3, 14, 17, 19, 22, 34, 38};

template <std::size_t n>
constexpr bool Contains(const std::array<std::uint32_t, n>& group, std::uint32_t edge_class) {
  for (const std::uint32_t member : group) {
    if (member == edge_class) return true;
  }
  return false;
}

/// The base label of every class, including constOpaqueDef.
constexpr std::array<std::uint16_t, kEdgeClasses> MakeLabels() {
  std::array<std::uint16_t, kEdgeClasses> labels{};
  std::uint16_t next = 2;
  for (std::uint32_t c = 0; c < kEdgeClasses; ++c) {
    labels[c] = Contains(kTypeGroup, c) ? 0 : Contains(kTermGroup, c) ? 1 : next++;
  }
  return labels;
}
constexpr std::array<std::uint16_t, kEdgeClasses> kLabels = MakeLabels();
static_assert(kLabels[kEdgeClasses - 1] == kBaseEdgeLabels - 1);

}  // namespace

const std::array<std::uint16_t, kEdgeClasses>& BaseEdgeLabels() { return kLabels; }

std::vector<std::string> BaseEdgeLabelNames() {
  std::vector<std::string> names(kBaseEdgeLabels);
  for (std::uint32_t c = 0; c < kEdgeClasses; ++c) {
    std::string& name = names[kLabels[c]];
    if (!name.empty()) name += '|';
    name += kClassNames[c];
  }
  return names;
}

void EdgeGroups::Append(const Closure& closure, const EdgeColumns& columns, BatchWriter& writer) {
  switch (writer.value_bytes(columns.source)) {
    case 1:
      return AppendAs<std::uint8_t>(closure, columns, writer);
    case 2:
      return AppendAs<std::uint16_t>(closure, columns, writer);
    default:
      return AppendAs<std::uint32_t>(closure, columns, writer);
  }
}

template <class Index>
void EdgeGroups::AppendAs(const Closure& closure, const EdgeColumns& columns, BatchWriter& writer) {
  if (writer.value_bytes(columns.label) == 1) {
    Scatter<Index, std::uint8_t>(closure, columns, writer);
  } else {
    Scatter<Index, std::uint16_t>(closure, columns, writer);
  }
}

template <class Index, class Label>
void EdgeGroups::Scatter(const Closure& closure, const EdgeColumns& columns, BatchWriter& writer) {
  const std::size_t edges = closure.edges();
  const std::uint64_t* __restrict const words = closure.edge_words.data();
  const EdgeEnds* __restrict const ends = closure.edge_ends.data();
  const std::uint16_t* __restrict const label_of_class = label_of_class_.data();
  const auto label_of = [&](std::size_t e) { return label_of_class[words[e] & 0xFFFF]; };
  // Neighbouring edges often have the same label, and counting one of them has to wait for the
  // count before it. So both halves of the edges are counted, and then placed, side by side.
  Places* __restrict const places = places_.data();
  std::fill(places_.begin(), places_.end(), Places{0, 0});
  const std::size_t half = edges / 2;
  for (std::size_t e = 0; e < half; ++e) {
    ++places[label_of(e)].first;
    ++places[label_of(half + e)].second;
  }
  if (edges % 2 != 0) ++places[label_of(edges - 1)].second;
  std::uint32_t begin = 0;
  for (Places& place : places_) {
    const Places count = place;
    place = {begin, begin + count.first};
    begin += count.first + count.second;
  }

  const std::uint64_t last_node = std::max<std::size_t>(closure.node_labels.size(), 1) - 1;
  Index* __restrict const sources = writer.AppendRoom<Index>(columns.source, edges, last_node);
  Index* __restrict const targets = writer.AppendRoom<Index>(columns.target, edges, last_node);
  Label* __restrict const labels =
      writer.AppendRoom<Label>(columns.label, edges, places_.size() - 1);
  const auto put = [&](std::uint32_t place, std::size_t e, std::uint16_t label) {
    sources[place] = static_cast<Index>(ends[e].source);
    targets[place] = static_cast<Index>(ends[e].target);
    labels[place] = static_cast<Label>(label);
  };
  for (std::size_t e = 0; e < half; ++e) {
    const std::uint16_t first = label_of(e);
    const std::uint16_t second = label_of(half + e);
    put(places[first].first++, e, first);
    put(places[second].second++, half + e, second);
  }
  if (edges % 2 != 0) put(places[label_of(edges - 1)].second, edges - 1, label_of(edges - 1));
}

}  // namespace millrace
