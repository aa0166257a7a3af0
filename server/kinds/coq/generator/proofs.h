// Proofs of a generated file: steps, their outcomes, proof states with local contexts, and
// arguments. The nodes that they need go into the graph. The rest is recorded here until the
// message is written.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "server/kinds/coq/generator/graph_buffer.h"
#include "server/kinds/coq/generator/scope.h"
#include "server/kinds/coq/generator/terms.h"
#include "server/source/random.h"

namespace millrace::generator {

struct ProofStateData {
  Reference root;
  Reference goal;
  std::uint32_t first_context = 0;  // position in ProofData::contexts
  std::uint32_t context_count = 0;
  std::uint32_t id = 0;
};

struct ArgumentData {
  Reference term;
  bool resolvable = true;
};

struct OutcomeData {
  std::uint32_t before = 0;  // position in ProofData::states
  std::uint32_t first_after = 0;
  std::uint32_t after_count = 0;
  std::uint32_t first_argument = 0;
  std::uint32_t argument_count = 0;
  Reference term;
};

struct StepData {
  std::uint32_t tactic = kNoRef;  // kNoRef: unknown
  std::uint32_t first_outcome = 0;
  std::uint32_t outcome_count = 0;
};

/// All proofs of one file.
struct ProofData {
  std::vector<Reference> contexts;
  std::vector<ProofStateData> states;
  std::vector<ArgumentData> arguments;
  std::vector<OutcomeData> outcomes;
  std::vector<StepData> steps;
};

/// Number of arguments of a tactic, the same for every use.
std::uint32_t ArgumentCount(std::uint64_t seed, std::uint32_t tactic);

class ProofBuilder {
 public:
  struct Budget {
    /// Nodes that the proof states of an example may use on average, and the number of nodes by
    /// which proofs may exceed that.
    std::uint32_t nodes_per_state = 0;
    std::uint32_t slack = 0;
    /// If true, one state of the file has a local context larger than any usual max_subgraph_size.
    bool large_context = false;
  };

  /// All references must outlive the builder.
  ProofBuilder(const Outline& outline, std::uint32_t file, GraphBuffer& graph, Random& random,
               const Scope& scope, TermBuilder& terms, ProofData& data, const Budget& budget);

  /// Adds the steps of a proof of `statement` with this number of examples (outcomes of known
  /// tactics).
  void Build(Reference statement, std::uint32_t examples);

  /// Number of examples of all proofs so far.
  std::uint64_t examples() const { return examples_; }

 private:
  void Step(std::uint32_t tactic, std::uint32_t outcomes);
  void Outcome(std::uint32_t tactic);
  std::uint32_t NextOpen();
  std::uint32_t FirstState(Reference statement);
  std::uint32_t NewState(std::uint32_t parent);
  std::uint32_t StateOfOtherFile(std::uint32_t parent, Reference root);
  bool MayGrow() const;
  void ExtendContext(ProofStateData* state, std::uint32_t count);
  Reference ContextElement();
  void AddRoot(ProofStateData* state);
  void UseContext(const ProofStateData& state);
  void Arguments(std::uint32_t count, const ProofStateData& before);

  const Outline& outline_;
  GraphBuffer& graph_;
  Random& random_;
  const Scope& scope_;
  TermBuilder& terms_;
  ProofData& data_;
  const std::uint32_t nodes_per_state_;
  const std::uint32_t slack_;
  const bool edges_reversed_;  // the context's edges are in reverse order
  bool large_context_due_;
  std::uint64_t examples_ = 0;
  std::uint64_t nodes_used_ = 0;  // by earlier proofs

  // State of the proof under construction.
  std::uint32_t began_at_ = 0;        // size of the graph when the proof began
  std::vector<std::uint32_t> open_;   // states that wait for a step
  std::vector<std::uint32_t> roots_;  // proof state nodes
  std::vector<Reference> variables_;  // the context of the current state
  std::uint32_t current_ = 0;
};

}  // namespace millrace::generator
