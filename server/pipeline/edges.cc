#include "server/pipeline/edges.h"

#include <string_view>

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

// The classes of each conflatable group.
constexpr std::array<std::uint32_t, 9> kTypeGroup = {2, 4, 9, 15, 16, 18, 21, 33, 37};
constexpr std::array<std::uint32_t, 7> kTermGroup = {3, 14, 17, 19, 22, 34, 38};

template <std::size_t n>
constexpr bool Contains(const std::array<std::uint32_t, n>& group, std::uint32_t edge_class) {
  for (const std::uint32_t member : group) {
    if (member == edge_class) return true;
  }
  return false;
}

/// Base label of every class, constOpaqueDef included.
constexpr std::array<std::uint32_t, kEdgeClasses> MakeLabels() {
  std::array<std::uint32_t, kEdgeClasses> labels{};
  std::uint32_t next = 2;
  for (std::uint32_t c = 0; c < kEdgeClasses; ++c) {
    labels[c] = Contains(kTypeGroup, c) ? 0 : Contains(kTermGroup, c) ? 1 : next++;
  }
  return labels;
}
constexpr std::array<std::uint32_t, kEdgeClasses> kLabels = MakeLabels();
static_assert(kLabels[kEdgeClasses - 1] == kBaseEdgeLabels - 1);

constexpr std::array<std::uint32_t, kEdgeClasses> MakeFollowedLabels() {
  std::array<std::uint32_t, kEdgeClasses> labels = kLabels;
  labels[kConstOpaqueDef] = kSkippedEdge;
  return labels;
}
constexpr std::array<std::uint32_t, kEdgeClasses> kFollowedLabels = MakeFollowedLabels();

}  // namespace

const std::array<std::uint32_t, kEdgeClasses>& BaseEdgeLabels() { return kFollowedLabels; }

std::vector<std::string> BaseEdgeLabelNames() {
  std::vector<std::string> names(kBaseEdgeLabels);
  for (std::uint32_t c = 0; c < kEdgeClasses; ++c) {
    std::string& name = names[kLabels[c]];
    if (!name.empty()) name += '|';
    name += kClassNames[c];
  }
  return names;
}

void EdgeGroups::Assign(const Closure& closure) {
  const std::span<const RecordedEdge> edges = closure.edges.span();
  size_ = edges.size();
  if (sources_.size() < size_) {
    sources_.resize(size_);
    targets_.resize(size_);
    labels_.resize(size_);
  }
  next_.resize(closure.edges_of_label.size());
  std::uint32_t begin = 0;
  for (std::size_t label = 0; label < next_.size(); ++label) {
    next_[label] = begin;
    begin += closure.edges_of_label[label];
  }
  std::uint32_t* const next = next_.data();
  std::uint32_t* const sources = sources_.data();
  std::uint32_t* const targets = targets_.data();
  std::uint32_t* const labels = labels_.data();
  for (const RecordedEdge& edge : edges) {
    const std::uint32_t place = next[edge.label()]++;
    sources[place] = edge.source();
    targets[place] = edge.target();
    labels[place] = edge.label();
  }
}

}  // namespace millrace
