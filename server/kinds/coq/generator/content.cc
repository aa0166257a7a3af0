#include "server/kinds/coq/generator/content.h"

#include <algorithm>
#include <array>

#include "server/kinds/coq/generator/terms.h"

namespace millrace::generator {
namespace {

// Average number of nodes per proof state. It gives closures of the intended sizes.
constexpr std::uint64_t kNodesPerState = 19;
// Number of nodes by which proofs may exceed that average, so that the tail of their sizes is not
// cut.
constexpr std::uint64_t kProofSlack = 6000;
// About one file in this many nodes has a proof state with a very large local context.
constexpr std::uint32_t kNodesPerLargeContext = 1'000'000;

class ContentBuilder {
 public:
  ContentBuilder(const Outline& outline, FileContent& content)
      : outline_(outline.file(content.file)),
        content_(content),
        scope_(content.scope),
        table_(content.scope.own()),
        graph_(content.graph),
        random_(Mix(outline.Key(content.file), 0xC0)),
        terms_(graph_, random_, scope_),
        budget_(MakeBudget()),
        proofs_(outline, content.file, graph_, random_, scope_, terms_, content.proofs, budget_) {}

  void Build() {
    const std::uint32_t definitions = outline_.definitions;
    if (definitions == 0) return;
    graph_.Reserve(outline_.nodes + outline_.nodes / 16);
    content_.extras.resize(definitions);
    SpreadWeights();
    for (std::uint32_t i = 0; i < definitions; ++i) graph_.Add(NodeLabel::DEFINITION);
    AddSharedNodes();
    for (std::uint32_t first = 0; first < definitions;) {
      const std::uint32_t members = table_.ClusterSize(first);
      scope_.Enter(first);
      if (table_.all[first].kind == DefinitionKind::kInductive) {
        AddCluster(first, members);
      } else {
        AddConstant(first);
      }
      scope_.Leave(first);
      first += members;
    }
    content_.examples = proofs_.examples();
  }

 private:
  // Number of nodes that are neither definitions nor shared.
  std::uint64_t FreeNodes() const {
    const std::uint64_t taken = std::uint64_t{outline_.definitions} + outline_.shared();
    return outline_.nodes > taken ? outline_.nodes - taken : 0;
  }

  // Proofs get the nodes that they need, but at most four fifths. Types and bodies get the rest.
  ProofBuilder::Budget MakeBudget() {
    const std::uint64_t most = FreeNodes() * 4 / 5;
    const std::uint64_t share = std::min(most, outline_.states * kNodesPerState);
    term_nodes_ = FreeNodes() - share;
    ProofBuilder::Budget budget;
    if (outline_.states > 0)
      budget.nodes_per_state = static_cast<std::uint32_t>(share / outline_.states);
    budget.slack = static_cast<std::uint32_t>(std::min(kProofSlack, share / 4));
    budget.large_context = FreeNodes() > 4 * kProofSlack && outline_.states >= 64 &&
                           random_.Below(kNodesPerLargeContext) < outline_.nodes;
    return budget;
  }

  // A definition's weight decides how many nodes its terms get. A proof's weight decides how many
  // examples it gets.
  void SpreadWeights() {
    const std::uint32_t definitions = outline_.definitions;
    weights_.resize(definitions);
    std::vector<std::uint32_t> proof_weights(definitions, 0);
    std::uint64_t proof_weight = 0;
    for (std::uint32_t i = 0; i < definitions; ++i) {
      weights_[i] = random_.HeavyTail(2, 110, 2000);
      weight_ += weights_[i];
      const std::uint32_t length = random_.HeavyTail(2, 100, 400);
      if (HasProof(table_.all[i].kind)) proof_weights[i] = length;
      proof_weight += proof_weights[i];
    }
    std::uint64_t before = 0;
    std::uint64_t given = 0;
    for (std::uint32_t i = 0; i < definitions && proof_weight > 0; ++i) {
      before += proof_weights[i];
      const std::uint64_t until = outline_.states * before / proof_weight;
      content_.extras[i].examples = static_cast<std::uint32_t>(until - given);
      given = until;
    }
  }

  void AddSharedNodes() {
    constexpr std::array kAtomLabels{NodeLabel::SORT_S_PROP, NodeLabel::SORT_PROP,
                                     NodeLabel::SORT_SET, NodeLabel::SORT_TYPE,
                                     NodeLabel::CONST_EMPTY};
    for (NodeLabel label : kAtomLabels) graph_.Add(label);
    const std::uint32_t base = outline_.definitions;
    for (std::uint32_t number = kAtoms; number < outline_.shared(); ++number) {
      // Halving the number keeps the set that a shared term reaches logarithmic in size.
      std::uint32_t lower = kAtoms + (number - kAtoms) / 2;
      if (number == kAtoms || KindOfShared(lower) != SharedKind::kTerm) lower = random_.Below(4);
      AddSharedNode(number, {base + lower, 0}, {base + number - 1, 0});
    }
  }

  void AddSharedNode(std::uint32_t number, Reference lower, Reference last) {
    switch (KindOfShared(number)) {
      case SharedKind::kInt:
        graph_.Add(NodeLabel::INT);
        return;
      case SharedKind::kFloat:
        graph_.Add(NodeLabel::FLOAT);
        return;
      case SharedKind::kPrimitive:
        graph_.Add(NodeLabel::PRIMITIVE);
        return;
      case SharedKind::kContextElement: {
        const std::uint32_t node = graph_.Add(NodeLabel::CONTEXT_ASSUM);
        graph_.SetChildren(node, {{EdgeLabel::CONTEXT_DEF_TYPE, lower}});
        return;
      }
      case SharedKind::kProofState: {
        const std::uint32_t node = graph_.Add(NodeLabel::PROOF_STATE);
        graph_.node(node).value = node;
        graph_.SetChildren(node,
                           {{EdgeLabel::CONTEXT_ELEM, last}, {EdgeLabel::CONTEXT_SUBJECT, lower}});
        return;
      }
      default: {
        const Reference other = scope_.AnyDefinition(random_);
        if (number % 2 == 0) {
          const std::uint32_t node = graph_.Add(NodeLabel::APP);
          graph_.SetChildren(node, {{EdgeLabel::APP_FUN, other}, {EdgeLabel::APP_ARG, lower}});
        } else {
          const std::uint32_t node = graph_.Add(NodeLabel::PROD);
          graph_.SetChildren(node, {{EdgeLabel::PROD_TYPE, lower}, {EdgeLabel::PROD_TERM, other}});
        }
      }
    }
  }

  // Number of nodes that are still to be added until the graph has its planned size for the
  // definitions so far and `members` more. If proofs have used too many or too few nodes, the next
  // bodies make up for it.
  std::uint32_t NodesLeft(std::uint32_t first, std::uint32_t members) {
    for (std::uint32_t i = first; i < first + members; ++i) weight_done_ += weights_[i];
    const std::uint64_t planned =
        outline_.definitions + outline_.shared() + term_nodes_ * weight_done_ / weight_ +
        (proofs_.examples() + content_.extras[first].examples) * budget_.nodes_per_state;
    return planned > graph_.size() ? static_cast<std::uint32_t>(planned - graph_.size()) : 0;
  }

  void AddConstant(std::uint32_t number) {
    const Definition& definition = table_.all[number];
    DefinitionExtra& extra = content_.extras[number];
    const std::uint32_t left = NodesLeft(number, 1);
    const std::uint32_t end = graph_.size() + left;
    if (definition.status == DefinitionStatus::kSubstituted) {
      extra.substituted = scope_.AnyDefinition(random_);
    }
    const std::uint32_t own = left - std::min(left, extra.examples * budget_.nodes_per_state);
    const Reference type = terms_.Build(std::min(own / 4, random_.HeavyTail(4, 70, 1000)));
    if (HasProof(definition.kind)) {
      extra.first_step = static_cast<std::uint32_t>(content_.proofs.steps.size());
      proofs_.Build(type, extra.examples);
      extra.step_count =
          static_cast<std::uint32_t>(content_.proofs.steps.size()) - extra.first_step;
    }
    if (IsAxiom(definition)) {
      graph_.SetChildren(number, {{EdgeLabel::CONST_UNDEF, scope_.Atom(SharedKind::kConstEmpty)},
                                  {EdgeLabel::CONST_TYPE, type}});
      return;
    }
    if (definition.kind == DefinitionKind::kManualConstant && random_.OneIn(200)) {
      const std::uint32_t primitive = graph_.Add(NodeLabel::PRIMITIVE);
      graph_.SetChildren(
          number, {{EdgeLabel::CONST_PRIMITIVE, {primitive, 0}}, {EdgeLabel::CONST_TYPE, type}});
      return;
    }
    const Reference body = terms_.Build(end > graph_.size() ? end - graph_.size() : 0);
    const bool opaque = HasProof(definition.kind) && random_.Below(3) < 2;
    graph_.SetChildren(number, {{opaque ? EdgeLabel::CONST_OPAQUE_DEF : EdgeLabel::CONST_DEF, body},
                                {EdgeLabel::CONST_TYPE, type}});
  }

  bool IsAxiom(const Definition& definition) {
    if (definition.kind == DefinitionKind::kManualSectionConstant) return true;
    return definition.kind == DefinitionKind::kManualConstant && random_.OneIn(64);
  }

  void AddCluster(std::uint32_t first, std::uint32_t members) {
    const std::uint32_t share = NodesLeft(first, members) / members;
    const std::uint32_t end = first + members;
    terms_.SetSelf(first);
    for (std::uint32_t i = first; i < end; ++i) {
      // No term of a cluster is out of proportion, because all of them belong to one example.
      const Reference term = terms_.Build(std::min(share, random_.HeavyTail(8, 100, 400)));
      switch (table_.all[i].kind) {
        case DefinitionKind::kInductive:
          AddInductive(i, end, term);
          break;
        case DefinitionKind::kProjection:
          graph_.SetChildren(i, {{EdgeLabel::PROJ_TERM, term}});
          break;
        default:
          graph_.SetChildren(i, {{EdgeLabel::CONSTRUCT_TERM, term}});
      }
    }
    terms_.SetSelf(kNoRef);
  }

  void AddInductive(std::uint32_t number, std::uint32_t end, Reference type) {
    graph_.Begin(number);
    graph_.Child(EdgeLabel::IND_TYPE, type);
    std::uint32_t i = number + 1;
    for (; i < end && table_.all[i].kind == DefinitionKind::kConstructor; ++i) {
      graph_.Child(EdgeLabel::IND_CONSTRUCT, {i, 0});
    }
    for (; i < end && table_.all[i].kind == DefinitionKind::kProjection; ++i) {
      graph_.Child(EdgeLabel::IND_PROJECTION, {i, 0});
    }
    graph_.End(number);
  }

  const FilePlan outline_;
  FileContent& content_;
  Scope& scope_;
  const DefinitionTable& table_;
  GraphBuffer& graph_;
  Random random_;
  TermBuilder terms_;
  std::uint64_t term_nodes_ = 0;  // nodes for types and bodies
  const ProofBuilder::Budget budget_;
  ProofBuilder proofs_;
  std::vector<std::uint32_t> weights_;  // one for each definition
  std::uint64_t weight_ = 0;
  std::uint64_t weight_done_ = 0;
};

}  // namespace

void BuildContent(const Outline& outline, FileContent* content) {
  ContentBuilder(outline, *content).Build();
}

}  // namespace millrace::generator
