#include "server/pipeline/node_labels.h"

#include <algorithm>
#include <array>
#include <bit>

namespace millrace {

NodeLabels::NodeLabels(const DatasetIndex& index, bool restrict_to_spine)
    : labelled_(static_cast<std::uint32_t>(index.definitions().size())) {
  if (restrict_to_spine) {
    label_of_.assign(index.definitions().size(), kNone);
    for (const FileRecord& file : index.files()) {
      for (const std::uint32_t definition :
           index.spines().subspan(file.spine.first, file.spine.count)) {
        label_of_[definition] = kNodeClasses + static_cast<std::uint32_t>(definition_of_.size());
        definition_of_.push_back(definition);
      }
    }
    labelled_ = static_cast<std::uint32_t>(definition_of_.size());
  }
  const std::uint64_t capacity =
      std::bit_ceil(std::max<std::uint64_t>(16, std::uint64_t{2} * index.definitions().size()));
  slots_.assign(capacity, Slot{kEmpty, kNoDefinition});
  mask_ = capacity - 1;
  shift_ = 64 - std::countr_zero(capacity);
  for (std::uint32_t d = 0; d < index.definitions().size(); ++d) {
    const DefinitionRecord& definition = index.definitions()[d];
    Insert({definition.file, definition.node}, Label(d));
  }
}

void NodeLabels::Insert(NodeRef node, std::uint32_t label) {
  const std::uint64_t key = Key(node);
  std::uint64_t slot = Hash(key) >> shift_;
  while (slots_[slot].key != kEmpty) slot = (slot + 1) & mask_;
  slots_[slot] = {key, label};
}

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
