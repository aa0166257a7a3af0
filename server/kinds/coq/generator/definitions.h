// The definitions of a generated file: their kinds, clusters and `previous` chains. They are made
// from the outline alone, in microseconds. So a file that depends on this one makes the table again
// instead of reading the file.
//
// Definition i of a file is its node i. A mutual cluster is a run of definitions. As in real files,
// its first definition is the representative and the latest in the global context. The chain goes
// from the representative to the last definition of the run and then down to the second one, whose
// `previous` is outside.
#pragma once

#include <cstdint>
#include <vector>

#include "server/kinds/coq/generator/outline.h"
#include "server/kinds/coq/index/dataset_index.h"

namespace millrace::generator {

enum class DefinitionStatus : std::uint8_t { kOriginal, kDischarged, kSubstituted };

/// One definition. kNoRef means that there is no such definition.
struct Definition {
  DefinitionKind kind = DefinitionKind::kManualConstant;
  DefinitionStatus status = DefinitionStatus::kOriginal;
  bool on_spine = false;
  std::uint32_t previous = kNoRef;
  std::uint32_t cluster = kNoRef;  // the representative; for a constant, the definition itself
  /// For a discharged definition: the definition in the section that it comes from.
  std::uint32_t origin = kNoRef;
};

struct DefinitionTable {
  std::vector<Definition> all;
  std::uint32_t representative = kNoRef;
  std::vector<std::uint32_t> spine;       // oldest first
  std::vector<std::uint32_t> inductives;  // on the spine, with a constructor

  /// Number of definitions in the cluster that begins with `first`; 1 for a constant.
  std::uint32_t ClusterSize(std::uint32_t first) const;
  /// Number of constructors of an inductive. They follow it.
  std::uint32_t ConstructorCount(std::uint32_t inductive) const;
};

DefinitionTable MakeDefinitionTable(const Outline& outline, std::uint32_t file);

inline bool HasProof(DefinitionKind kind) {
  return kind == DefinitionKind::kTacticalConstant ||
         kind == DefinitionKind::kTacticalSectionConstant;
}

}  // namespace millrace::generator
