// Builds terms of a generated file: trees of applications, binders, cases and fixpoints over the
// things that a scope offers. They have shared subterms, and the cycles of real terms: a variable
// points at its binder, a fixpoint at its functions, an existential at a proof state and a
// substitution.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "server/kinds/coq/generator/graph_buffer.h"
#include "server/kinds/coq/generator/scope.h"
#include "server/source/random.h"

namespace millrace::generator {

class TermBuilder {
 public:
  /// All three arguments must outlive the builder.
  TermBuilder(GraphBuffer& graph, Random& random, const Scope& scope)
      : graph_(graph), random_(random), scope_(scope) {}

  /// Sets the variables and proof states that terms may mention from here on: the local context and
  /// the proof states of a proof, or nothing. The caller keeps them alive.
  void SetContext(const std::vector<Reference>* variables, std::uint32_t count) {
    variables_ = variables;
    variable_count_ = count;
  }
  void SetProofStates(const std::vector<std::uint32_t>* states) { proof_states_ = states; }
  /// Sets a definition that variables may stand for: the inductive of the cluster under
  /// construction.
  void SetSelf(std::uint32_t definition) { self_ = definition; }

  /// Builds a term of about `size` new nodes; with 0 it returns an existing term. A term shares
  /// subterms only with itself.
  Reference Build(std::uint32_t size);

  /// Adds a node for the evar that stands for a proof state, with up to four substitutions.
  Reference Evar(Reference state, std::uint32_t substitutions);

 private:
  static constexpr std::uint32_t kRecent = 16;

  struct Binder {
    std::uint32_t node;
    std::uint32_t variable;  // its REL node; kNoRef before the first use
  };

  Reference Term(std::uint32_t size);
  Reference Leaf();
  Reference NewLeaf();
  Reference Bound(bool may_add);
  Reference Apply(std::uint32_t size);
  Reference Bind(std::uint32_t size, NodeLabel label, EdgeLabel type, EdgeLabel body);
  Reference LetIn(std::uint32_t size);
  Reference Case(std::uint32_t size);
  Reference Fix(std::uint32_t size, bool inductive);
  Reference Cast(std::uint32_t size);
  Reference Literal();

  GraphBuffer& graph_;
  Random& random_;
  const Scope& scope_;
  const std::vector<Reference>* variables_ = nullptr;
  std::uint32_t variable_count_ = 0;
  const std::vector<std::uint32_t>* proof_states_ = nullptr;
  std::uint32_t self_ = kNoRef;
  std::vector<Binder> binders_;
  std::uint32_t depth_ = 0;
  std::array<Reference, kRecent> recent_;  // the latest subterms of the term under construction
  std::uint32_t recent_count_ = 0;
};

}  // namespace millrace::generator
