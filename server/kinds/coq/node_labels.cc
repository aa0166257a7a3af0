#include "server/kinds/coq/node_labels.h"

#include <array>

namespace millrace {

const char* NodeClassName(std::uint32_t node_class) {
  static constexpr std::array<const char*, kNodeClasses> kNames = {
      "proofState", "contextDef", "contextAssum", "definition", "constEmpty", "sortSProp",
      "sortProp",   "sortSet",    "sortType",     "rel",        "evar",       "evarSubst",
      "cast",       "prod",       "lambda",       "letIn",      "app",        "case",
      "caseBranch", "fix",        "fixFun",       "coFix",      "coFixFun",   "int",
      "float",      "primitive"};
  return kNames[node_class];
}

}  // namespace millrace
