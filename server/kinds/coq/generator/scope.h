// The things that a term of a generated file may mention: definitions before it in the global
// context, definitions of the files that its file depends on, and the shared nodes of both. The
// scope also knows the kinds of shared nodes.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/kinds/coq/generator/definitions.h"
#include "server/kinds/coq/generator/graph_buffer.h"
#include "server/kinds/coq/generator/outline.h"
#include "server/source/random.h"

namespace millrace::generator {

/// The kind of a shared node follows from its number alone, so that a file can mention shared nodes
/// of another file. The first kAtoms are the atoms, in this order. Later ones are terms; in every
/// group of eight there is a context element followed by a proof state over it.
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

/// A requirement of a dependency that takes effect at a definition (`externalPrevious`).
struct Requirement {
  std::uint32_t definition;
  std::uint16_t dependency;
};

class Scope {
 public:
  Scope(const Outline& outline, std::uint32_t file);

  const std::vector<std::uint32_t>& dependencies() const { return dependencies_; }
  const DefinitionTable& own() const { return tables_[0]; }
  /// Ordered by definition.
  const std::vector<Requirement>& requirements() const { return requirements_; }

  /// Call Enter and Leave for each cluster (or constant) in order, with its first member.
  void Enter(std::uint32_t first);
  void Leave(std::uint32_t first);

  /// A definition of the scope; recent and basic ones are more frequent. An atom if there is no
  /// definition yet.
  Reference AnyDefinition(Random& random) const;
  /// An inductive with constructors. False if the scope has no such inductive.
  bool AnyInductive(Random& random, Reference* inductive, std::uint32_t* constructors) const;
  /// A shared closed term or atom, of this file or of a dependency.
  Reference AnyShared(Random& random) const;
  Reference Atom(SharedKind kind) const;
  /// A proof state among the shared nodes of a dependency. False if there is no such state. Its
  /// only context element is the node before it.
  bool ForeignProofState(Random& random, Reference* state) const;

 private:
  Reference SharedOf(std::uint16_t dependency, std::uint32_t number) const;
  Reference ForeignDefinition(Random& random) const;

  const Outline& outline_;
  const std::vector<std::uint32_t> dependencies_;
  std::vector<DefinitionTable> tables_;  // one for each dependency
  std::vector<Requirement> requirements_;
  std::size_t next_requirement_ = 0;
  std::vector<std::uint16_t> visible_;  // dependencies with definitions that terms may mention now
  std::vector<std::uint32_t> chain_;  // the global context of the current definition, oldest first
  std::vector<std::uint32_t> chain_inductives_;  // clusters are never off the spine
};

}  // namespace millrace::generator
