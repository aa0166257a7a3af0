#include "server/kinds/coq/coq_proof_states.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/ask_for_line.h"
#include "server/kinds/coq/coq_names.h"
#include "server/kinds/coq/coq_source.h"
#include "server/kinds/coq/coq_static.h"

namespace millrace {

ProofStateSource::ProofStateSource(CoqTables tables, const PlanParts& parts)
    : ProofStateSource(std::move(tables), parts, {}) {}

ProofStateSource::ProofStateSource(CoqTables tables, const PlanParts& parts,
                                   std::vector<std::uint32_t> definitions)
    : tables_(std::move(tables)),
      examples_(tables_.index(), tables_.labels, tables_.tactics,
                parts.Get<CoqNumberingPart>().restrict_to_spine, &definitions),
      contexts_(tables_.index(), tables_.labels, definitions),
      fields_(parts.Get<CoqFieldsPart>()) {
  SourceFacts facts;
  facts.name = "proof_states";
  facts.digest = index().digest();
  facts.examples = examples_.size();
  facts.columns = {{kIdentityColumn}, {kFileColumn}, {kFaithfulColumn}, {kNoneArgumentColumn}};
  facts.tensors = MakeTensors();
  facts.expand = tables_.expand;
  facts.split_column = kIdentityColumn;
  facts.drop_reasons = CoqDropReasons();
  facts.counted_tensors = {"local_context"};  // by local_args
  if (fields_.global_context == GlobalContextField::kFull) {
    facts.counted_tensors.emplace_back("global_context");
  }
  SetFacts(std::move(facts));
}

std::vector<TensorSpec> ProofStateSource::MakeTensors() {
  // The largest index into a table of `count` entries, which decides the type of its tensor. An
  // empty table has none, and counts as if it had one entry.
  const auto last = [](std::uint64_t count) { return std::max<std::uint64_t>(count, 1) - 1; };
  const IndexBounds& bounds = index().bounds();
  const std::uint64_t nodes = NodeBound(tables_.closure, 1);
  const std::uint64_t last_node_label = last(tables_.labels.size());
  TensorList list;
  const auto add_dense = [&list](const char* path, std::uint64_t max) {
    return list.Add(path, TensorKind::kDense, "batch", 0, max);
  };
  numbers_.graph = list.AddGraph(tables_.labels.size(), kBaseEdgeLabels, nodes);
  numbers_.root = list.Add("root", TensorKind::kDense, "batch", 0, 0, "", Expansion::kNodeOffset);
  numbers_.local_context = list.Add("local_context", TensorKind::kRaggedValues, "local_context", 0,
                                    nodes - 1, "local_context_splits", Expansion::kNodeOffset);
  list.AddSplits("local_context_splits");
  switch (fields_.global_context) {
    case GlobalContextField::kReference:
      numbers_.global_context = list.Add("global_context", TensorKind::kTableReference, "batch", 0,
                                         last(contexts_.size()));
      break;
    case GlobalContextField::kFull:
      numbers_.global_context =
          list.Add("global_context", TensorKind::kRaggedValues, "global_context", 0,
                   last_node_label, "global_context_splits");
      list.AddSplits("global_context_splits");
      break;
    case GlobalContextField::kOmitted:
      break;
  }
  numbers_.tactic = add_dense("tactic", last(tables_.tactics.tactics().size()));
  numbers_.local_args = list.Add("local_args", TensorKind::kRaggedValues, "args", -1,
                                 last(bounds.max_context), "args_splits");
  numbers_.global_args = list.Add("global_args", TensorKind::kRaggedValues, "args", -1,
                                  last(contexts_.max_length()), "args_splits");
  list.AddSplits("args_splits");
  numbers_.proof_step = add_dense("proof_step", bounds.max_step);
  numbers_.faithful = add_dense("faithful", 1);
  numbers_.example_id = add_dense("example_id", last(examples_.size()));
  numbers_.definition = add_dense("definition", last_node_label);
  if (fields_.text) {
    numbers_.state_text = list.Add("state_text", TensorKind::kStringBytes, "bytes", 0, 255,
                                   "state_text_splits", Expansion::kKeep);
    list.AddSplits("state_text_splits");
    numbers_.tactic_text = list.Add("tactic_text", TensorKind::kStringBytes, "bytes", 0, 255,
                                    "tactic_text_splits", Expansion::kKeep);
    list.AddSplits("tactic_text_splits");
  }
  return list.Take();
}

std::int32_t ProofStateSource::LocalPosition(std::span<const NodeRef> context, NodeRef argument) {
  for (std::size_t i = context.size(); i-- > 0;) {
    if (context[i] == argument) return static_cast<std::int32_t>(i);
  }
  return -1;
}

std::int32_t ProofStateSource::GlobalPosition(std::uint32_t definition, NodeRef argument) const {
  const std::uint32_t label = tables_.labels.Find(argument);
  if (label == NodeLabels::kNoDefinition || label == kNoRef) return -1;
  const std::uint32_t position =
      contexts_.Position(contexts_.Id(definition), tables_.labels.Definition(label));
  return position == kNoRef ? -1 : static_cast<std::int32_t>(position);
}

bool ProofStateSource::HasNoneArgument(const OutcomeRecord& outcome, const StepRecord& step) const {
  const std::span<const NodeRef> context = Context(outcome);
  const std::span<const NodeRef> arguments = Arguments(outcome);
  return std::any_of(arguments.begin(), arguments.end(), [&](NodeRef argument) {
    return LocalPosition(context, argument) < 0 && GlobalPosition(step.definition, argument) < 0;
  });
}

std::int64_t ProofStateSource::Value(std::size_t column, const OutcomeRecord& outcome,
                                     const StepRecord& step) const {
  enum : std::size_t { kIdentity, kFile, kFaithful, kNoneArgument };  // as in SourceFacts::columns
  switch (column) {
    case kIdentity:
      return index().definitions()[step.definition].identity;
    case kFile:
      return index().definitions()[step.definition].file;
    case kFaithful:
      return step.faithful != 0 ? 1 : 0;
    case kNoneArgument:
      return HasNoneArgument(outcome, step) ? 1 : 0;
    default:
      return 0;
  }
}

void ProofStateSource::ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const {
  if (wanted.empty()) return;
  ExampleTable::Walk walk(examples_, first.value());
  for (std::size_t i = 0; i < wanted.front().values.size(); ++i) {
    const OutcomeRecord& outcome = index().outcomes()[walk.Next()];
    const StepRecord& step = Step(outcome);
    for (const ColumnValues& column : wanted) {
      column.values[i] = Value(column.column, outcome, step);
    }
  }
}

ExampleDescription ProofStateSource::Describe(ExampleId id) const {
  const std::uint32_t number = examples_.Outcome(id.value());
  const StepRecord& step = Step(index().outcomes()[number]);
  const DefinitionRecord& definition = index().definitions()[step.definition];
  ExampleDescription description;
  description.file = index().file_name(definition.file);
  description.title = index().string(definition.name);
  description.facts = {
      {"definition", description.title},
      {"step_of_proof", std::uint64_t{step.step}, "step"},
      {"outcome", std::uint64_t{number - step.outcomes.first}, "outcome"},
      {"faithful", step.faithful != 0},
  };
  return description;
}

std::vector<SourceTableSpec> ProofStateSource::TableSpecs() const {
  std::vector<SourceTableSpec> specs = CoqTableSpecs(tables_, &contexts_);
  const bool numbered = fields_.global_context == GlobalContextField::kReference;
  for (SourceTableSpec& spec : specs) {
    if (fields_.global_context == GlobalContextField::kFull && spec.table.name == "node_labels") {
      spec.tensors.emplace_back("global_context");
    }
    if (numbered && spec.table.name == "contexts") spec.tensors.emplace_back("global_context");
  }
  return specs;
}

void ProofStateSource::WriteTable(std::size_t table, TableWriter& out) const {
  WriteCoqTable(tables_, &contexts_, table, out);
}

namespace {

template <class Builder>
class ProofStateReader final : public ExampleReader {
 public:
  explicit ProofStateReader(const ProofStateSource& source)
      : source_(source), graph_(source.coq_tables()) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    const auto roots = [&](std::size_t i, std::vector<NodeRef>* nodes) {
      Prefetch(ids.subspan(i + 1));
      const OutcomeRecord& outcome = source_.Outcome(ids[i]);
      const DefinitionRecord& definition =
          source_.index().definitions()[source_.Step(outcome).definition];
      if (source_.coq_tables().excluded[definition.file])
        return std::optional(DropReason::kExcluded);
      nodes->push_back(outcome.root);
      return std::optional<DropReason>();
    };
    const auto done = [&](std::size_t i, std::optional<DropReason> dropped) {
      if (!dropped) return Finish(ids[i], writer);
      writer.AddDropped(ids[i], *dropped);
      return OkStatus();
    };
    return graph_.Build(ids.size(), roots, done);
  }

 private:
  /// Hints which data the coming examples will need. For each example the record comes first; once
  /// that has arrived, the data that it names follow, and so on.
  void Prefetch(std::span<const ExampleId> coming) const {
    if (coming.size() > 5) AskForLine(&source_.Outcome(coming[5]));
    if (coming.size() > 3) {
      const OutcomeRecord& outcome = source_.Outcome(coming[3]);
      AskForLine(&source_.Step(outcome));
      AskForLine(source_.Context(outcome).data());
      AskForLine(source_.Arguments(outcome).data());
      graph_.WillBuild(outcome.root);
    }
    if (coming.size() > 1) {
      const StepRecord& step = source_.Step(source_.Outcome(coming[1]));
      AskForLine(&source_.index().definitions()[step.definition]);
      graph_.WillBuildNext(source_.Outcome(coming[1]).root);
    }
  }

  /// Called when the graph is built. Appends the example, or drops it after all.
  Status Finish(ExampleId id, BatchWriter& writer) {
    const OutcomeRecord& outcome = source_.Outcome(id);
    const StepRecord& step = source_.Step(outcome);
    const DefinitionRecord& definition = source_.index().definitions()[step.definition];
    const std::span<const NodeRef> context = source_.Context(outcome);
    local_context_.resize(context.size());
    for (std::size_t i = 0; i < context.size(); ++i) {
      if (!graph_.Find(context[i], &local_context_[i])) {
        writer.AddDropped(id, kContextCutOff);
        return OkStatus();
      }
    }
    std::string_view state_text;
    std::string_view tactic_text;
    if (source_.fields().text) {
      const FileId file(definition.file);
      const CoqDataset& dataset = *source_.coq_tables().dataset;
      MILLRACE_ASSIGN_OR_RETURN(state_text, dataset.Text(file, outcome.text));
      MILLRACE_ASSIGN_OR_RETURN(tactic_text, dataset.Text(file, step.text));
    }

    const ProofStateTensors& numbers = source_.tensor_numbers();
    graph_.Append(numbers.graph, writer);
    writer.AppendOne(numbers.root, 0);
    writer.Append(numbers.local_context, local_context_);
    AppendGlobalContext(step.definition, writer);
    writer.AppendOne(numbers.tactic, source_.coq_tables().tactics.Number(step.tactic));
    for (const NodeRef argument : source_.Arguments(outcome)) {
      const std::int32_t local = ProofStateSource::LocalPosition(context, argument);
      writer.AppendOne(numbers.local_args, local);
      writer.AppendOne(numbers.global_args,
                       local >= 0 ? -1 : source_.GlobalPosition(step.definition, argument));
    }
    writer.AppendOne(numbers.proof_step, step.step);
    writer.AppendOne(numbers.faithful, step.faithful != 0 ? 1 : 0);
    writer.AppendOne(numbers.example_id, static_cast<std::int64_t>(id.value()));
    writer.AppendOne(numbers.definition, source_.coq_tables().labels.Label(step.definition));
    if (source_.fields().text) {
      writer.AppendBytes(numbers.state_text, std::as_bytes(std::span(state_text)));
      writer.AppendBytes(numbers.tactic_text, std::as_bytes(std::span(tactic_text)));
    }
    writer.EndExample(id);
    return OkStatus();
  }

  void AppendGlobalContext(std::uint32_t definition, BatchWriter& writer) {
    const std::uint32_t context = source_.contexts().Id(definition);
    switch (source_.fields().global_context) {
      case GlobalContextField::kReference:
        writer.AppendOne(source_.tensor_numbers().global_context, context);
        break;
      case GlobalContextField::kFull:
        global_context_.clear();
        source_.contexts().AppendLabels(context, &global_context_);
        writer.Append(source_.tensor_numbers().global_context, global_context_);
        break;
      case GlobalContextField::kOmitted:
        break;
    }
  }

  const ProofStateSource& source_;
  CoqGraphBuilder<Builder> graph_;
  std::vector<std::uint32_t> local_context_;
  std::vector<std::uint32_t> global_context_;
};

class ProofStateNames final : public ExampleNames {
 public:
  explicit ProofStateNames(const ProofStateSource& source)
      : source_(source), names_(source.coq_tables()) {}

  void Name(std::span<const ExampleId> ids, std::span<Digest128> names) const override {
    for (std::size_t done = 0; done < ids.size(); done += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, ids.size() - done);
      NameSome(ids.subspan(done, count), names.subspan(done, count));
    }
  }

 private:
  static constexpr std::size_t kAtOnce = 64;

  /// Goes to the records of all examples step by step, so that they are waited for together.
  void NameSome(std::span<const ExampleId> ids, std::span<Digest128> names) const {
    const DatasetIndex& index = source_.index();
    std::array<std::uint32_t, kAtOnce> outcomes;
    std::array<const StepRecord*, kAtOnce> steps;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      outcomes[i] = source_.OutcomeNumber(ids[i]);
      AskForLine(&index.outcomes()[outcomes[i]].step);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      steps[i] = &index.steps()[index.outcomes()[outcomes[i]].step];
      AskForLine(&steps[i]->definition);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      AskForLine(&index.definitions()[steps[i]->definition].file);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) names[i] = NameOf(outcomes[i], *steps[i]);
  }

  Digest128 NameOf(std::uint32_t outcome, const StepRecord& step) const {
    const DefinitionRecord& definition = source_.index().definitions()[step.definition];
    CoqNames::Place place;
    place.file = definition.file;
    place.node = definition.node;
    place.step = step.step;
    place.outcome = outcome - step.outcomes.first;
    place.tactic = source_.coq_tables().tactics.Number(step.tactic);
    // A context that is written out has labels of the example's files alone.
    if (source_.fields().global_context == GlobalContextField::kReference) {
      place.context = source_.contexts().Id(step.definition);
    }
    return names_.Of(place);
  }

  const ProofStateSource& source_;
  const CoqNames names_;
};

}  // namespace

std::unique_ptr<const ExampleNames> ProofStateSource::NewNames() const {
  return std::make_unique<ProofStateNames>(*this);
}

std::unique_ptr<ExampleReader> ProofStateSource::NewReader() const {
  index().definition_table();  // made here, so that it is not made while a batch is built
  return WithClosureBuilder<CoqView>(tables_.kernel,
                                     [this]<class Builder>() -> std::unique_ptr<ExampleReader> {
                                       return std::make_unique<ProofStateReader<Builder>>(*this);
                                     });
}

Result<std::shared_ptr<const Source>> MakeProofStateSource(
    std::shared_ptr<const CoqDataset> dataset, const PlanParts& parts) {
  MILLRACE_ASSIGN_OR_RETURN(CoqTables tables, CoqTables::Make(std::move(dataset), parts));
  return std::shared_ptr<const Source>(
      std::make_shared<ProofStateSource>(std::move(tables), parts));
}

}  // namespace millrace
