#include "server/kinds/coq/scan/definition_scanner.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/core.h>

#include "common/base/utf8.h"
#include "server/kinds/coq/scan/definition_links.h"
#include "server/kinds/coq/scan/graph_message.h"

namespace millrace {
namespace {

using Definition = schema::Definition;
using Steps = capnp::List<schema::ProofStep>::Reader;

template <class T>
std::uint32_t Count(const std::vector<T>& v) {
  return static_cast<std::uint32_t>(v.size());
}

void Raise(std::uint64_t& bound, std::uint64_t value) { bound = std::max(bound, value); }

// Whether two texts are equal if every '@' is removed from both.
bool EqualButForAt(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (true) {
    while (i < a.size() && a[i] == '@') ++i;
    while (j < b.size() && b[j] == '@') ++j;
    if (i == a.size() || j == b.size()) return i == a.size() && j == b.size();
    if (a[i++] != b[j++]) return false;
  }
}

std::string_view TextView(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

class DefinitionScanner {
 public:
  DefinitionScanner(GraphFile& graph, const std::vector<std::uint32_t>& nodes, FileSummary& summary,
                    FileBlob& blob)
      : graph_(graph), nodes_(nodes), summary_(summary), blob_(blob) {}

  Status Run() {
    MILLRACE_RETURN_IF_ERROR(ReadList());
    for (std::uint32_t d = 0; d < Count(blob_.definitions); ++d) {
      const std::uint32_t node = blob_.definitions[d].node;
      offset_ = graph_.OffsetOf(graph_.nodes() + std::uint64_t{node} * kNodeWords);
      const Status status = CatchCapnp([&] { return ReadDefinition(d); });
      if (!status.ok()) {
        return Status(status.code(), fmt::format("at byte {}: definition node {}: {}", offset_,
                                                 node, status.message()));
      }
    }
    const std::uint32_t representative = graph_.message().root.getRepresentative();
    if (representative != graph_.node_count()) {
      summary_.representative = NumberOf(representative);
      if (summary_.representative == kNoRef) {
        return DataLoss(fmt::format("the file's representative is node {}, which is no definition",
                                    representative));
      }
    }
    MILLRACE_RETURN_IF_ERROR(LinkDefinitions(cluster_of_, summary_.representative, blob_));
    for (const ClusterRecord& c : blob_.clusters) {
      Raise(summary_.bounds.max_cluster, c.members.count);
    }
    return CheckSizes();
  }

 private:
  // The number of the definition at a node; kNoRef if there is none.
  std::uint32_t NumberOf(std::uint32_t node) const {
    const auto found = std::lower_bound(nodes_.begin(), nodes_.end(), node);
    if (found == nodes_.end() || *found != node) return kNoRef;
    return blob_.definitions_by_node[static_cast<std::size_t>(found - nodes_.begin())];
  }

  Status ReadList() {
    const auto list = graph_.message().root.getDefinitions();
    if (list.size() != nodes_.size()) {
      return DataLoss(
          fmt::format("the list of definitions has {} entries, but {} nodes are "
                      "definitions",
                      list.size(), nodes_.size()));
    }
    blob_.definitions.resize(nodes_.size());
    blob_.definitions_by_node.assign(nodes_.size(), kNoRef);
    for (std::uint32_t d = 0; d < list.size(); ++d) {
      const std::uint32_t node = list[d];
      const auto found = std::lower_bound(nodes_.begin(), nodes_.end(), node);
      if (found == nodes_.end() || *found != node) {
        return DataLoss(
            fmt::format("the list of definitions names node {}, which is not a definition", node));
      }
      std::uint32_t& number =
          blob_.definitions_by_node[static_cast<std::size_t>(found - nodes_.begin())];
      if (number != kNoRef) {
        return DataLoss(fmt::format("the list of definitions names node {} twice", node));
      }
      number = d;
      blob_.definitions[d] = {.node = node};
    }
    cluster_of_.resize(nodes_.size());
    return OkStatus();
  }

  Status ReadDefinition(std::uint32_t d) {
    DefinitionRecord& record = blob_.definitions[d];
    const auto node = graph_.message().nodes[record.node];
    if (!node.getLabel().isDefinition()) return DataLoss("changed while it was read");
    const Definition::Reader definition = node.getLabel().getDefinition();
    record.identity = node.getIdentity();
    record.name = d;
    const std::string_view name = TextView(definition.getName());
    if (!IsUtf8(name)) return DataLoss("its name is not UTF-8");
    blob_.name_bytes.insert(blob_.name_bytes.end(), name.begin(), name.end());
    blob_.name_ends.push_back(Count(blob_.name_bytes));

    record.previous = kNoRef;
    const std::uint32_t previous = definition.getPrevious();
    if (previous != graph_.node_count()) {
      record.previous = NumberOf(previous);
      if (record.previous == kNoRef) return NoDefinition("`previous`", previous);
    }
    MILLRACE_RETURN_IF_ERROR(ReadRequiredFiles(definition, record));
    MILLRACE_RETURN_IF_ERROR(CheckStatus(definition.getStatus()));
    return ReadKind(d, definition);
  }

  static Status NoDefinition(const char* what, std::uint32_t node) {
    return DataLoss(fmt::format("{} is node {}, which is no definition", what, node));
  }

  Status ReadRequiredFiles(const Definition::Reader& definition, DefinitionRecord& record) {
    const auto list = definition.getExternalPrevious();
    record.required_files = {Count(blob_.required_files), list.size()};
    for (const std::uint16_t dependency : list) {
      if (dependency == 0 || dependency >= summary_.dependencies.size()) {
        return DataLoss(fmt::format("`externalPrevious` names dependency {}, expected 1 to {}",
                                    dependency, summary_.dependencies.size() - 1));
      }
      blob_.required_files.push_back(dependency);
    }
    return OkStatus();
  }

  Status CheckStatus(const Definition::Status::Reader& status) {
    switch (status.which()) {
      case Definition::Status::ORIGINAL:
        return OkStatus();
      case Definition::Status::DISCHARGED:
        if (NumberOf(status.getDischarged()) == kNoRef) {
          return NoDefinition("`discharged`", status.getDischarged());
        }
        return OkStatus();
      case Definition::Status::SUBSTITUTED:
        return Note(status.getSubstituted(), "`substituted`");
    }
    return DataLoss("its status is of an unknown kind");
  }

  Status ReadKind(std::uint32_t d, const Definition::Reader& definition) {
    DefinitionRecord& record = blob_.definitions[d];
    cluster_of_[d] = d;
    record.steps = {Count(blob_.steps), 0};
    const auto in_cluster = [&](DefinitionKind kind, std::uint32_t node) {
      record.kind = kind;
      cluster_of_[d] = NumberOf(node);
      if (cluster_of_[d] == kNoRef) return NoDefinition("its cluster's representative", node);
      return OkStatus();
    };
    switch (definition.which()) {
      case Definition::INDUCTIVE:
        return in_cluster(DefinitionKind::kInductive, definition.getInductive());
      case Definition::CONSTRUCTOR:
        return in_cluster(DefinitionKind::kConstructor, definition.getConstructor());
      case Definition::PROJECTION:
        return in_cluster(DefinitionKind::kProjection, definition.getProjection());
      case Definition::MANUAL_CONSTANT:
        record.kind = DefinitionKind::kManualConstant;
        return OkStatus();
      case Definition::TACTICAL_CONSTANT:
        record.kind = DefinitionKind::kTacticalConstant;
        return ReadSteps(d, definition.getTacticalConstant());
      case Definition::MANUAL_SECTION_CONSTANT:
        record.kind = DefinitionKind::kManualSectionConstant;
        return OkStatus();
      case Definition::TACTICAL_SECTION_CONSTANT:
        record.kind = DefinitionKind::kTacticalSectionConstant;
        return ReadSteps(d, definition.getTacticalSectionConstant());
    }
    return DataLoss("the definition is of an unknown kind");
  }

  Status ReadSteps(std::uint32_t d, const Steps& steps) {
    for (std::uint32_t s = 0; s < steps.size(); ++s) {
      const auto tactic = steps[s].getTactic();
      const auto outcomes = steps[s].getOutcomes();
      Status status;
      if (tactic.isKnown()) {
        Raise(summary_.bounds.max_step, s);
        status = ReadKnownStep(d, s, tactic.getKnown(), outcomes);
      } else if (tactic.isUnknown()) {
        for (const auto& outcome : outcomes) {
          if (status.ok()) status = CheckOutcome(outcome);
        }
      } else {
        status = DataLoss("its tactic is of an unknown kind");
      }
      if (!status.ok()) return status.WithContext(fmt::format("proof step {}", s));
    }
    DefinitionRecord& record = blob_.definitions[d];
    record.steps.count = Count(blob_.steps) - record.steps.first;
    return OkStatus();
  }

  Status ReadKnownStep(std::uint32_t d, std::uint32_t s, const schema::Tactic::Reader& tactic,
                       const capnp::List<schema::Outcome>::Reader& outcomes) {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint32_t number,
                              NumberTactic(tactic, outcomes.size() > 0));
    const auto text = tactic.getText();
    blob_.steps.push_back(
        {.text = RefTo(text),
         .definition = d,
         .step = s,
         .tactic = number,
         .outcomes = {Count(blob_.outcomes), outcomes.size()},
         .faithful = EqualButForAt(TextView(text), TextView(tactic.getIntermText())),
         .reserved = {}});
    for (std::uint32_t o = 0; o < outcomes.size(); ++o) {
      const Status status = ReadOutcome(outcomes[o]);
      if (!status.ok()) return status.WithContext(fmt::format("outcome {}", o));
    }
    return OkStatus();
  }

  Result<std::uint32_t> NumberTactic(const schema::Tactic::Reader& tactic, bool with_outcome) {
    const auto [entry, is_new] = tactics_.try_emplace(tactic.getIdent(), Count(summary_.tactics));
    const std::uint32_t number = entry->second;
    if (is_new) {
      summary_.tactics.push_back({.ident = tactic.getIdent(), .base_text = {}});
      has_outcome_.push_back(false);
    }
    // The text comes from the first step with an outcome, or, if there is none, from the first
    // step.
    if (is_new || (with_outcome && !has_outcome_[number])) {
      const std::string_view base_text = TextView(tactic.getBaseText());
      if (!IsUtf8(base_text)) return DataLoss("the `baseText` of its tactic is not UTF-8");
      summary_.tactics[number].base_text = base_text;
    }
    if (with_outcome && !has_outcome_[number]) {
      has_outcome_[number] = true;
      summary_.tactics_with_outcomes.push_back(number);
    }
    return number;
  }

  Status ReadOutcome(const schema::Outcome::Reader& outcome) {
    const auto before = outcome.getBefore();
    const auto context = before.getContext();
    const auto arguments = outcome.getTacticArguments();
    const auto root = before.getRoot();
    blob_.outcomes.push_back({.text = RefTo(before.getText()),
                              .root = {root.getDepIndex(), root.getNodeIndex()},
                              .first_context = blob_.context_nodes.size(),
                              .first_argument = blob_.arguments.size(),
                              .context_count = context.size(),
                              .argument_count = arguments.size(),
                              .step = Count(blob_.steps) - 1,
                              .reserved = 0});
    MILLRACE_RETURN_IF_ERROR(Note(root, "the root"));
    for (const auto& node : context) {
      blob_.context_nodes.push_back({node.getDepIndex(), node.getNodeIndex()});
      MILLRACE_RETURN_IF_ERROR(Note(node, "the context"));
    }
    for (const auto& argument : arguments) {
      if (argument.isTerm()) {
        const auto term = argument.getTerm();
        blob_.arguments.push_back({term.getDepIndex(), term.getNodeIndex()});
        MILLRACE_RETURN_IF_ERROR(Note(term, "an argument"));
      } else if (argument.isUnresolvable()) {
        blob_.arguments.push_back({kNoRef, kNoRef});
      } else {
        return DataLoss("an argument is of an unknown kind");
      }
    }
    Raise(summary_.bounds.max_context, context.size());
    Raise(summary_.bounds.max_arguments, arguments.size());
    return CheckRest(outcome);
  }

  // Parts that do not become examples are checked too.
  Status CheckOutcome(const schema::Outcome::Reader& outcome) {
    MILLRACE_RETURN_IF_ERROR(CheckState(outcome.getBefore()));
    for (const auto& argument : outcome.getTacticArguments()) {
      if (argument.isTerm()) {
        MILLRACE_RETURN_IF_ERROR(Note(argument.getTerm(), "an argument"));
      } else if (!argument.isUnresolvable()) {
        return DataLoss("an argument is of an unknown kind");
      }
    }
    return CheckRest(outcome);
  }

  Status CheckRest(const schema::Outcome::Reader& outcome) {
    for (const auto& state : outcome.getAfter()) MILLRACE_RETURN_IF_ERROR(CheckState(state));
    return Note(outcome.getTerm(), "the proof term");
  }

  Status CheckState(const schema::ProofState::Reader& state) {
    MILLRACE_RETURN_IF_ERROR(Note(state.getRoot(), "the root"));
    for (const auto& node : state.getContext()) {
      MILLRACE_RETURN_IF_ERROR(Note(node, "the context"));
    }
    return OkStatus();
  }

  // Notes a reference: any type with getDepIndex and getNodeIndex.
  template <class Reference>
  Status Note(const Reference& reference, const char* what) {
    if (NoteTarget(summary_.targets, reference.getDepIndex(), reference.getNodeIndex(), offset_)) {
      return OkStatus();
    }
    return DataLoss(fmt::format("{} refers to dependency {}, but the file has {}", what,
                                reference.getDepIndex(), summary_.targets.size()));
  }

  TextRef RefTo(capnp::Text::Reader text) {
    // An absent text does not lie in the file.
    if (text.size() == 0 || !graph_.Contains(text.begin(), text.size())) return {};
    Raise(summary_.bounds.max_text_bytes, text.size());
    return {.offset = graph_.OffsetOf(text.begin()),
            .bytes = static_cast<std::uint32_t>(text.size()),
            .reserved = 0};
  }

  // Numbers and counts in slices have 32 bits.
  Status CheckSizes() {
    bool fits = true;
    blob_.ForEachArray([&](const auto& array) { fits = fits && array.size() < kNoRef; });
    return fits ? OkStatus() : ResourceExhausted("the file has more than 2^32 - 2 of some record");
  }

  GraphFile& graph_;
  const std::vector<std::uint32_t>& nodes_;
  FileSummary& summary_;
  FileBlob& blob_;
  std::uint64_t offset_ = 0;  // place of the definition being read
  std::vector<std::uint32_t> cluster_of_;
  std::vector<bool> has_outcome_;
  // An ordered map, so that a file cannot choose keys that make it slow.
  std::map<std::int64_t, std::uint32_t> tactics_;
};

}  // namespace

Status ScanDefinitions(GraphFile& graph, const std::vector<std::uint32_t>& definition_nodes,
                       FileSummary& summary, FileBlob& blob) {
  return DefinitionScanner(graph, definition_nodes, summary, blob).Run();
}

}  // namespace millrace
