#include "server/kinds/coq/generator/definitions.h"

#include <algorithm>

#include "server/source/random.h"

namespace millrace::generator {
namespace {

// Larger than any usual max_subgraph_size.
constexpr std::uint32_t kMaxCluster = 1500;

class TableBuilder {
 public:
  TableBuilder(std::uint64_t key, const FilePlan& outline)
      : random_(Mix(key, 0xDEF)), count_(outline.definitions) {
    table_.all.reserve(count_);
  }

  DefinitionTable Build() {
    while (Left() > 0) {
      const std::uint32_t pick = random_.Below(256);
      if (Left() > 12 && pick < 8) {
        Section(std::min(4 + random_.Below(12), Left() / 2));
      } else if (Left() > 3 && pick < 24) {
        Cluster(std::min(random_.HeavyTail(2, 115, kMaxCluster), Left() - 1));
      } else if (Left() > 8 && pick < 28) {
        SubstitutedModule(1 + random_.Below(4));
      } else {
        // If no other definition can hold the file's proofs, the last one must.
        Constant(Left() == 1 ? DefinitionKind::kTacticalConstant : AnyConstant());
      }
    }
    Finish();
    return std::move(table_);
  }

 private:
  std::uint32_t Left() const { return count_ - static_cast<std::uint32_t>(table_.all.size()); }

  DefinitionKind AnyConstant() {
    return random_.Below(256) < 110 ? DefinitionKind::kTacticalConstant
                                    : DefinitionKind::kManualConstant;
  }

  Definition& Constant(DefinitionKind kind) {
    const auto number = static_cast<std::uint32_t>(table_.all.size());
    Definition& definition = table_.all.emplace_back();
    definition.kind = kind;
    definition.cluster = number;
    definition.previous = tip_;
    tip_ = number;
    return definition;
  }

  void Cluster(std::uint32_t members) {
    const auto first = static_cast<std::uint32_t>(table_.all.size());
    const bool record = members >= 3 && random_.OneIn(3);
    const std::uint32_t inductives = record || members < 5 || !random_.OneIn(3) ? 1 : 2;
    const std::uint32_t second = first + members / 2 + 1;
    for (std::uint32_t i = first; i < first + members; ++i) {
      Definition& definition = table_.all.emplace_back();
      definition.cluster = first;
      definition.previous = i == first + 1 ? tip_ : i - 1;
      if (i == first || (inductives == 2 && i == second)) {
        definition.kind = DefinitionKind::kInductive;
      } else if (record && i > first + 1) {
        definition.kind = DefinitionKind::kProjection;
      } else {
        definition.kind = DefinitionKind::kConstructor;
      }
    }
    table_.all[first].previous = members == 1 ? tip_ : first + members - 1;
    tip_ = first;
  }

  // Variables and constants of a section lie off the spine. At the end of the section, its
  // constants come again on the spine, generalised over the variables. `definitions` counts those
  // too.
  void Section(std::uint32_t definitions) {
    const std::uint32_t outside = tip_;
    const std::uint32_t constants = definitions * 2 / 5;
    for (std::uint32_t i = constants * 2; i < definitions; ++i) {
      Constant(random_.OneIn(6) ? DefinitionKind::kTacticalSectionConstant
                                : DefinitionKind::kManualSectionConstant);
    }
    const auto first = static_cast<std::uint32_t>(table_.all.size());
    for (std::uint32_t i = 0; i < constants; ++i) Constant(AnyConstant());
    tip_ = outside;
    for (std::uint32_t i = 0; i < constants; ++i) {
      Definition& definition = Constant(table_.all[first + i].kind);
      definition.status = DefinitionStatus::kDischarged;
      definition.origin = first + i;
    }
  }

  // A module that is applied and left again. It copies definitions from elsewhere.
  void SubstitutedModule(std::uint32_t copies) {
    const std::uint32_t outside = tip_;
    for (std::uint32_t i = 0; i < copies; ++i) {
      Constant(AnyConstant()).status = DefinitionStatus::kSubstituted;
    }
    if (random_.OneIn(2)) tip_ = outside;
  }

  void Finish() {
    table_.representative = tip_;
    for (std::uint32_t i = tip_; i != kNoRef; i = table_.all[i].previous) {
      table_.all[i].on_spine = true;
      table_.spine.push_back(i);
    }
    std::reverse(table_.spine.begin(), table_.spine.end());
    for (std::uint32_t i : table_.spine) {
      if (table_.all[i].kind == DefinitionKind::kInductive && table_.ConstructorCount(i) > 0) {
        table_.inductives.push_back(i);
      }
    }
  }

  Random random_;
  const std::uint32_t count_;
  DefinitionTable table_;
  std::uint32_t tip_ = kNoRef;  // the latest definition of the global context
};

}  // namespace

std::uint32_t DefinitionTable::ClusterSize(std::uint32_t first) const {
  std::uint32_t end = first + 1;
  while (end < all.size() && all[end].cluster == all[first].cluster) ++end;
  return end - first;
}

std::uint32_t DefinitionTable::ConstructorCount(std::uint32_t inductive) const {
  std::uint32_t end = inductive + 1;
  while (end < all.size() && all[end].cluster == all[inductive].cluster &&
         all[end].kind == DefinitionKind::kConstructor) {
    ++end;
  }
  return end - inductive - 1;
}

DefinitionTable MakeDefinitionTable(const Outline& outline, std::uint32_t file) {
  return TableBuilder(outline.Key(file), outline.file(file)).Build();
}

}  // namespace millrace::generator
