// What a term of a generated file may mention: the definitions before it in the global context,
// those of the files it depends on, and the shared nodes of both. Also knows the shared nodes'
// kinds.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/dataset/coq/generator/definitions.h"
#include "server/dataset/coq/generator/graph_buffer.h"
#include "server/dataset/coq/generator/plan.h"
#include "server/dataset/coq/generator/random.h"

namespace millrace::generator {

/// Shared nodes are known by their number alone, so that a file can mention those of another. The
/// first kAtoms are the atoms, in this order; later ones are terms, and every eighth is a context
/// element followed by a proof state over it.
enum class SharedKind : std::uint8_t {
  kSortSProp,
  kSortProp,
  kSortSet,
  kSortType,
  kConstEmpty,
  kTerm,
  kInt,
  kFloat,
  kPrimitive,
  kContextElement,
  kProofState,
};
SharedKind KindOfShared(std::uint32_t number);

/// A dependency's requirement that takes effect at a definition (`externalPrevious`).
struct Requirement {
  std::uint32_t definition;
  std::uint16_t dependency;
};

class Scope {
 public:
  Scope(const Plan& plan, std::uint32_t file);

  const std::vector<std::uint32_t>& dependencies() const { return dependencies_; }
  const DefinitionTable& own() const { return tables_[0]; }
  /// Ordered by definition.
  const std::vector<Requirement>& requirements() const { return requirements_; }

  /// To be called for each cluster (or constant), by its first member, in order.
  void Enter(std::uint32_t first);
  void Leave(std::uint32_t first);

  /// A definition of the scope, the recent and the basic ones more often. Where there is none yet,
  /// an atom.
  Reference AnyDefinition(Random& random) const;
  /// An inductive with constructors; false where the scope has none.
  bool AnyInductive(Random& random, Reference* inductive, std::uint32_t* constructors) const;
  /// A shared closed term or atom of this file, or of a dependency.
  Reference AnyShared(Random& random) const;
  Reference Atom(SharedKind kind) const;
  /// A proof state among the shared nodes of a dependency; false where there is none. Its only
  /// context element is the node before it.
  bool ForeignProofState(Random& random, Reference* state) const;

 private:
  Reference SharedOf(std::uint16_t dependency, std::uint32_t number) const;
  Reference ForeignDefinition(Random& random) const;

  const Plan& plan_;
  const std::vector<std::uint32_t> dependencies_;
  std::vector<DefinitionTable> tables_;  // by dependency
  std::vector<Requirement> requirements_;
  std::size_t next_requirement_ = 0;
  std::vector<std::uint16_t> visible_;  // dependencies that terms may mention now, with definitions
  std::vector<std::uint32_t> chain_;  // the global context of the current definition, oldest first
  std::vector<std::uint32_t> chain_inductives_;  // clusters are never off the spine
};

}  // namespace millrace::generator
