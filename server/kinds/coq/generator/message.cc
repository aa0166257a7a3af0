#include "server/kinds/coq/generator/message.h"

#include <algorithm>
#include <new>
#include <string>

#include "server/kinds/coq/generator/proof_writer.h"
#include "server/kinds/coq/generator/text.h"
#include "server/source/random.h"

namespace millrace::generator {
namespace {

using Label = schema::Graph::Node::Label;

// Smallest size of a segment, so that a file of a few kilobytes has only one.
constexpr std::size_t kMinSegmentWords = 512;
// From this number of segments on, the root pointer, the nodes and the edges have one segment each,
// without room for anything else. The other segments hold the rest.
constexpr std::uint32_t kSegmentsForLists = 4;

// Approximate size of the message without the lists of nodes and edges. Never much too small.
std::size_t EstimateRest(const FileContent& content) {
  std::size_t words = content.extras.size() * 30 + content.proofs.steps.size() * 30 +
                      content.proofs.arguments.size() * 2;
  for (const OutcomeData& outcome : content.proofs.outcomes) {
    std::size_t elements = content.proofs.states[outcome.before].context_count;
    for (std::uint32_t i = 0; i < outcome.after_count; ++i) {
      elements += content.proofs.states[outcome.first_after + i].context_count;
    }
    words += 12 + (1 + outcome.after_count) * 30 + elements * 14;
  }
  return words;
}

// The segment size that gives about `segments` segments.
std::size_t SegmentWords(const FileContent& content, std::uint32_t segments) {
  const std::size_t rest = EstimateRest(content);
  const std::size_t lists = content.graph.nodes().size() * 3 + content.graph.edges().size();
  if (segments == 1) return kMinSegmentWords + lists + 2 * rest;
  const std::size_t words = segments < kSegmentsForLists
                                ? (rest + lists) / segments
                                : rest / (segments - kSegmentsForLists + 1);
  return std::max(words, kMinSegmentWords);
}

class Writer {
 public:
  Writer(const Outline& outline, const FileContent& content, SegmentedMessage& message)
      : outline_(outline),
        content_(content),
        message_(message),
        key_(outline.Key(content.file)),
        proofs_(outline, content),
        node_count_(content.graph.size()) {}

  /// `lists_apart`: nodes and edges fill one segment each, so that pointers to them are double-far.
  void Write(bool lists_apart) {
    message_.SetExact(lists_apart);
    auto nodes = message_.getOrphanage().newOrphan<capnp::List<schema::Graph::Node>>(node_count_);
    auto edges = message_.getOrphanage().newOrphan<capnp::List<schema::Graph::EdgeTarget>>(
        static_cast<capnp::uint>(content_.graph.edges().size()));
    message_.SetExact(false);

    auto dataset = message_.initRoot<schema::Dataset>();
    const std::vector<std::uint32_t>& dependencies = content_.scope.dependencies();
    auto names = dataset.initDependencies(static_cast<capnp::uint>(dependencies.size()));
    for (std::uint32_t i = 0; i < dependencies.size(); ++i) {
      names.set(i, AsText(outline_.Name(dependencies[i])));
    }
    const DefinitionTable& table = content_.scope.own();
    dataset.setRepresentative(table.representative == kNoRef ? node_count_ : table.representative);
    auto definitions = dataset.initDefinitions(static_cast<capnp::uint>(table.all.size()));
    for (std::uint32_t i = 0; i < table.all.size(); ++i) definitions.set(i, i);
    module_ = outline_.Module(content_.file);
    dataset.setModuleName(AsText(module_));
    dataset.initDataVersion().setMajor(15);

    WriteEdges(edges.get());
    WriteNodes(nodes.get());
    auto graph = dataset.initGraph();
    graph.adoptEdges(kj::mv(edges));
    graph.adoptNodes(kj::mv(nodes));
  }

 private:
  void WriteEdges(capnp::List<schema::Graph::EdgeTarget>::Builder list) {
    capnp::uint i = 0;
    for (const BufferedEdge& edge : content_.graph.edges()) {
      auto builder = list[i++];
      builder.setLabel(edge.label);
      auto target = builder.getTarget();
      target.setDepIndex(edge.dependency);
      target.setNodeIndex(edge.node);
    }
  }

  void WriteNodes(capnp::List<schema::Graph::Node>::Builder list) {
    for (std::uint32_t i = 0; i < node_count_; ++i) {
      const BufferedNode& node = content_.graph.nodes()[i];
      auto builder = list[i];
      WriteLabel(i, node, builder.getLabel());
      builder.setChildrenIndex(node.first_child);
      builder.setChildrenCount(node.children_count);
      builder.setIdentity(Identity(i, node));
    }
  }

  // The NodeKey of a node of this file.
  std::uint64_t KeyOf(std::uint32_t node) const { return Mix(key_, node); }

  std::int64_t Identity(std::uint32_t number, const BufferedNode& node) const {
    switch (node.label) {
      case Label::SORT_S_PROP:
      case Label::SORT_PROP:
      case Label::SORT_SET:
      case Label::SORT_TYPE:
      case Label::CONST_EMPTY:
        return static_cast<std::int64_t>(Mix(node.label, kGolden));  // the same in all files
      case Label::APP:
        return static_cast<std::int64_t>(KeyOf(node.value == kNoRef ? number : node.value));
      default:
        return static_cast<std::int64_t>(KeyOf(number));
    }
  }

  void WriteLabel(std::uint32_t number, const BufferedNode& node, Label::Builder label) {
    switch (node.label) {
      case Label::PROOF_STATE:
        label.initProofState().setValue(node.value);
        break;
      case Label::CONTEXT_DEF:
        label.setContextDef();
        break;
      case Label::CONTEXT_ASSUM:
        label.setContextAssum();
        break;
      case Label::DEFINITION:
        WriteDefinition(number, label.initDefinition());
        break;
      case Label::CONST_EMPTY:
        label.setConstEmpty();
        break;
      case Label::SORT_S_PROP:
        label.setSortSProp();
        break;
      case Label::SORT_PROP:
        label.setSortProp();
        break;
      case Label::SORT_SET:
        label.setSortSet();
        break;
      case Label::SORT_TYPE:
        label.setSortType();
        break;
      case Label::REL:
        label.setRel();
        break;
      case Label::EVAR:
        label.setEvar();
        break;
      case Label::EVAR_SUBST:
        label.setEvarSubst();
        break;
      case Label::CAST:
        label.setCast();
        break;
      case Label::PROD:
        label.setProd();
        break;
      case Label::LAMBDA:
        label.setLambda();
        break;
      case Label::LET_IN:
        label.setLetIn();
        break;
      case Label::APP:
        label.setApp();
        break;
      case Label::CASE:
        label.setCase();
        break;
      case Label::CASE_BRANCH:
        label.setCaseBranch();
        break;
      case Label::FIX:
        label.setFix();
        break;
      case Label::FIX_FUN:
        label.setFixFun();
        break;
      case Label::CO_FIX:
        label.setCoFix();
        break;
      case Label::CO_FIX_FUN:
        label.setCoFixFun();
        break;
      case Label::INT:
        label.initInt().setValue(KeyOf(number) % 1'000'000'007);
        break;
      case Label::FLOAT:
        // An integer and two bits after the point: exact on every machine.
        label.initFloat().setValue(static_cast<double>(KeyOf(number) % 4096) / 4);
        break;
      case Label::PRIMITIVE:
        label.setPrimitive(KeyOf(number) % 2 == 0 ? "int63_add" : "float64_mul");
        break;
    }
  }

  void WriteDefinition(std::uint32_t number, schema::Definition::Builder builder) {
    const Definition& definition = content_.scope.own().all[number];
    const DefinitionExtra& extra = content_.extras[number];
    const std::uint64_t key = KeyOf(number);
    text_.clear();
    if (definition.kind != DefinitionKind::kManualSectionConstant) text_ = module_ + ".d";
    AppendVariable(key, &text_);
    text_ += '_' + std::to_string(number);
    builder.setName(AsText(text_));
    builder.setPrevious(definition.previous == kNoRef ? node_count_ : definition.previous);
    WriteRequirements(number, builder);
    switch (definition.status) {
      case DefinitionStatus::kOriginal:
        builder.getStatus().setOriginal();
        break;
      case DefinitionStatus::kDischarged:
        builder.getStatus().setDischarged(definition.origin);
        break;
      case DefinitionStatus::kSubstituted: {
        auto substituted = builder.getStatus().initSubstituted();
        substituted.setDepIndex(extra.substituted.dependency);
        substituted.setNodeIndex(extra.substituted.node);
        break;
      }
    }
    WriteKind(definition, extra, builder);
    builder.setTypeText(Term(Mix(key, 1)));
    builder.setTermText(Term(Mix(key, 2)));
  }

  void WriteRequirements(std::uint32_t number, schema::Definition::Builder builder) {
    const std::vector<Requirement>& all = content_.scope.requirements();
    const auto first = std::lower_bound(
        all.begin(), all.end(), number,
        [](const Requirement& a, std::uint32_t definition) { return a.definition < definition; });
    auto last = first;
    while (last != all.end() && last->definition == number) ++last;
    if (first == last) return;
    auto list = builder.initExternalPrevious(static_cast<capnp::uint>(last - first));
    for (auto it = first; it != last; ++it) {
      list.set(static_cast<capnp::uint>(it - first), it->dependency);
    }
  }

  void WriteKind(const Definition& definition, const DefinitionExtra& extra,
                 schema::Definition::Builder builder) {
    switch (definition.kind) {
      case DefinitionKind::kInductive:
        builder.setInductive(definition.cluster);
        break;
      case DefinitionKind::kConstructor:
        builder.setConstructor(definition.cluster);
        break;
      case DefinitionKind::kProjection:
        builder.setProjection(definition.cluster);
        break;
      case DefinitionKind::kManualConstant:
        builder.setManualConstant();
        break;
      case DefinitionKind::kTacticalConstant:
        proofs_.Write(extra, builder.initTacticalConstant(extra.step_count));
        break;
      case DefinitionKind::kManualSectionConstant:
        builder.setManualSectionConstant();
        break;
      case DefinitionKind::kTacticalSectionConstant:
        proofs_.Write(extra, builder.initTacticalSectionConstant(extra.step_count));
        break;
    }
  }

  // The text of a term. It is valid until the next one is made.
  capnp::Text::Reader Term(std::uint64_t key) {
    text_.clear();
    AppendTerm(key, &text_);
    return AsText(text_);
  }

  const Outline& outline_;
  const FileContent& content_;
  SegmentedMessage& message_;
  const std::uint64_t key_;
  ProofWriter proofs_;
  const std::uint32_t node_count_;
  std::string module_;
  std::string text_;
};

}  // namespace

SegmentedMessage::~SegmentedMessage() = default;

kj::ArrayPtr<capnp::word> SegmentedMessage::allocateSegment(capnp::uint minimum_words) {
  const std::size_t words =
      exact_ ? minimum_words : std::max<std::size_t>(minimum_words, segment_words_);
  void* memory = std::calloc(words, sizeof(capnp::word));
  if (memory == nullptr) throw std::bad_alloc();
  segments_.emplace_back(memory);
  return kj::arrayPtr(static_cast<capnp::word*>(memory), words);
}

std::unique_ptr<SegmentedMessage> MakeMessage(const Outline& outline, const FileContent& content,
                                              std::uint32_t segments) {
  auto message = std::make_unique<SegmentedMessage>(SegmentWords(content, segments));
  Writer(outline, content, *message).Write(segments >= kSegmentsForLists);
  return message;
}

}  // namespace millrace::generator
