#include "server/kinds/coq/edges.h"

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

}  // namespace millrace
