#include "server/kinds/coq/index/index_reuse.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/kinds/coq/index/index_freshness.h"
#include "server/kinds/coq/scan/graph_file.h"
#include "server/kinds/coq/scan/graph_message.h"

namespace millrace {
namespace {

/// The slice from the start of `first` to the end of `last`. REQUIRES: the slices between them are
/// consecutive.
Slice Together(Slice first, Slice last) {
  return {first.first, last.first + last.count - first.first};
}

template <class T>
std::vector<T> Copy(std::span<const T> all, Slice slice) {
  const std::span<const T> values = Sub(all, slice);
  return {values.begin(), values.end()};
}

/// The slices of the index's arrays that a file's records fill.
struct FileSlices {
  Slice required_files{};
  Slice steps{};
  Slice outcomes{};
  std::uint64_t first_context = 0;
  std::uint64_t contexts = 0;
  std::uint64_t first_argument = 0;
  std::uint64_t arguments = 0;

  FileSlices(const DatasetIndex& index, const FileRecord& file) {
    const auto definitions = Sub(index.definitions(), file.definitions);
    if (definitions.empty()) return;
    required_files =
        Together(definitions.front().required_files, definitions.back().required_files);
    steps = Together(definitions.front().steps, definitions.back().steps);
    const auto all_steps = Sub(index.steps(), steps);
    if (all_steps.empty()) return;
    outcomes = Together(all_steps.front().outcomes, all_steps.back().outcomes);
    const auto all_outcomes = Sub(index.outcomes(), outcomes);
    if (all_outcomes.empty()) return;
    const OutcomeRecord& front = all_outcomes.front();
    const OutcomeRecord& back = all_outcomes.back();
    first_context = front.first_context;
    contexts = back.first_context + back.context_count - first_context;
    first_argument = front.first_argument;
    arguments = back.first_argument + back.argument_count - first_argument;
  }
};

}  // namespace

IndexReuse::IndexReuse(std::shared_ptr<const DatasetIndex> index)
    : index_(std::move(index)),
      same_host_(index_->host_id() == HostId()),
      text_files_(index_->tactics().size(), kNoRef) {
  for (std::uint32_t f = 0; f < index_->files().size(); ++f) {
    files_.emplace(index_->file_name(f), f);
  }
  // Same rule as for numbering: the first step with an outcome, otherwise the first step.
  for (const bool with_outcome : {true, false}) {
    for (const StepRecord& step : index_->steps()) {
      std::uint32_t& file = text_files_[step.tactic];
      if (file == kNoRef && (step.outcomes.count > 0) == with_outcome) {
        file = index_->definitions()[step.definition].file;
      }
    }
  }
}

std::uint32_t IndexReuse::Find(std::string_view name) const {
  const auto found = files_.find(name);
  return found == files_.end() ? kNoRef : found->second;
}

bool IndexReuse::IsUnchanged(const std::filesystem::path& dir, std::uint32_t file,
                             const FileIdentity& now) const {
  const FileRecord& record = index_->files()[file];
  if (record.size != now.size) return false;
  if (same_host_ && SameHostRecord(HostRecord(now), index_->host_files()[file])) return true;
  return HashesAsIndexed(dir, *index_, file).ok();
}

Slice IndexReuse::Steps(const FileRecord& file) const { return FileSlices(*index_, file).steps; }

std::uint32_t IndexReuse::NodesOfDependency(std::uint32_t file, std::size_t dependency) const {
  const auto dependencies = Sub(index_->dependency_files(), index_->files()[file].dependencies);
  return index_->files()[dependencies[dependency]].node_count;
}

Status IndexReuse::Summarize(std::uint32_t file, const NameTable& names,
                             FileSummary& summary) const {
  const FileRecord& record = index_->files()[file];
  const FileSlices slices(*index_, record);
  summary.digest = {record.digest_high, record.digest_low};
  summary.node_count = record.node_count;
  summary.edge_count = record.edge_count;
  summary.representative =
      record.representative == kNoRef ? kNoRef : record.representative - record.definitions.first;
  for (const std::uint32_t dependency : Sub(index_->dependency_files(), record.dependencies)) {
    const std::string_view name = index_->file_name(dependency);
    const auto found = names.find(name);
    if (found == names.end()) {
      return DataLoss(fmt::format("depends on {:?}, which is not in the dataset", name));
    }
    summary.dependencies.push_back(found->second);
  }
  summary.targets.resize(summary.dependencies.size());
  SummarizeTactics(file, summary);

  IndexBounds& bounds = summary.bounds;
  const auto raise = [](std::uint64_t& bound, std::uint64_t value) {
    bound = std::max(bound, value);
  };
  bounds.max_file_nodes = record.node_count;
  for (const ClusterRecord& c : Sub(index_->clusters(), record.clusters)) {
    raise(bounds.max_cluster, c.members.count);
  }
  for (const StepRecord& s : Sub(index_->steps(), slices.steps)) {
    raise(bounds.max_step, s.step);
    raise(bounds.max_text_bytes, s.text.bytes);
  }
  for (const OutcomeRecord& o : Sub(index_->outcomes(), slices.outcomes)) {
    raise(bounds.max_context, o.context_count);
    raise(bounds.max_arguments, o.argument_count);
    raise(bounds.max_text_bytes, o.text.bytes);
  }
  summary.counts = {.definitions = record.definitions.count,
                    .clusters = record.clusters.count,
                    .steps = slices.steps.count,
                    .outcomes = slices.outcomes.count,
                    .required_files = slices.required_files.count,
                    .spine = record.spine.count,
                    .context_nodes = slices.contexts,
                    .arguments = slices.arguments,
                    .name_bytes = 0};
  for (const DefinitionRecord& d : Sub(index_->definitions(), record.definitions)) {
    summary.counts.name_bytes += index_->string(d.name).size();
  }
  return OkStatus();
}

void IndexReuse::SummarizeTactics(std::uint32_t file, FileSummary& summary) const {
  const Slice steps = Steps(index_->files()[file]);
  std::map<std::uint32_t, std::uint32_t> numbers;  // keys are numbers of tactics in the index
  std::vector<bool> has_outcome;
  for (std::uint32_t s = steps.first; s < steps.first + steps.count; ++s) {
    const StepRecord& step = index_->steps()[s];
    const auto next = static_cast<std::uint32_t>(summary.tactics.size());
    const auto [entry, is_new] = numbers.try_emplace(step.tactic, next);
    const TacticRecord& record = index_->tactics()[step.tactic];
    if (is_new) {
      summary.tactics.push_back({.ident = record.ident, .base_text = {}, .text_step = s});
      has_outcome.push_back(false);
      if (text_files_[step.tactic] == file) {
        summary.tactics.back().base_text = index_->string(record.base_text);
        summary.tactics.back().text_step = kNoRef;
      }
    }
    const std::uint32_t number = entry->second;
    if (step.outcomes.count == 0 || has_outcome[number]) continue;
    has_outcome[number] = true;
    summary.tactics_with_outcomes.push_back(number);
    std::uint32_t& text_step = summary.tactics[number].text_step;
    if (text_step != kNoRef) text_step = s;
  }
}

FileBlob IndexReuse::Blob(std::uint32_t file) const {
  const FileRecord& record = index_->files()[file];
  const FileSlices slices(*index_, record);
  const auto dependencies = Sub(index_->dependency_files(), record.dependencies);
  std::map<std::uint32_t, std::uint32_t> dependency_of;  // keys are FileIds
  for (std::uint32_t d = 0; d < dependencies.size(); ++d) {
    dependency_of.try_emplace(dependencies[d], d);
  }
  const auto to_dependency = [&](std::uint32_t& f) {
    if (f != kNoRef) f = dependency_of.find(f)->second;
  };
  std::map<std::uint32_t, std::uint32_t> tactics;
  FileBlob blob;

  blob.definitions = Copy(index_->definitions(), record.definitions);
  for (std::uint32_t i = 0; i < blob.definitions.size(); ++i) {
    DefinitionRecord& d = blob.definitions[i];
    const std::string_view name = index_->string(d.name);
    blob.name_bytes.insert(blob.name_bytes.end(), name.begin(), name.end());
    blob.name_ends.push_back(static_cast<std::uint32_t>(blob.name_bytes.size()));
    d.file = 0;
    d.name = i;
    if (d.previous != kNoRef) d.previous -= record.definitions.first;
    d.cluster -= record.clusters.first;
    d.required_files.first -= slices.required_files.first;
    d.steps.first -= slices.steps.first;
  }
  blob.clusters = Copy(index_->clusters(), record.clusters);
  for (ClusterRecord& c : blob.clusters) {
    c.members.first -= record.definitions.first;
    c.representative -= record.definitions.first;
    c.file = 0;
  }
  blob.steps = Copy(index_->steps(), slices.steps);
  for (StepRecord& s : blob.steps) {
    s.definition -= record.definitions.first;
    s.tactic =
        tactics.try_emplace(s.tactic, static_cast<std::uint32_t>(tactics.size())).first->second;
    s.outcomes.first -= slices.outcomes.first;
  }
  blob.outcomes = Copy(index_->outcomes(), slices.outcomes);
  for (OutcomeRecord& o : blob.outcomes) {
    to_dependency(o.root.file);
    o.first_context -= slices.first_context;
    o.first_argument -= slices.first_argument;
    o.step -= slices.steps.first;
  }
  blob.required_files = Copy(index_->required_files(), slices.required_files);
  for (std::uint32_t& f : blob.required_files) to_dependency(f);
  blob.spine = Copy(index_->spines(), record.spine);
  // There are as many members as definitions, and they lie at the same places.
  blob.cluster_members = Copy(index_->cluster_members(), record.definitions);
  blob.definitions_by_node = Copy(index_->definitions_by_node(), record.definitions);
  for (auto* numbers : {&blob.spine, &blob.cluster_members, &blob.definitions_by_node}) {
    for (std::uint32_t& d : *numbers) d -= record.definitions.first;
  }
  const auto contexts = Sub(index_->context_nodes(), slices.first_context, slices.contexts);
  blob.context_nodes.assign(contexts.begin(), contexts.end());
  const auto arguments = Sub(index_->arguments(), slices.first_argument, slices.arguments);
  blob.arguments.assign(arguments.begin(), arguments.end());
  for (auto* nodes : {&blob.context_nodes, &blob.arguments}) {
    for (NodeRef& node : *nodes) to_dependency(node.file);
  }
  return blob;
}

Result<std::string> IndexReuse::ReadBaseText(const std::filesystem::path& dir,
                                             std::uint32_t step) const {
  const StepRecord& record = index_->steps()[step];
  const DefinitionRecord& definition = index_->definitions()[record.definition];
  MILLRACE_ASSIGN_OR_RETURN(
      MappedFile file,
      MappedFile::Open(dir / index_->file_name(definition.file), AccessPattern::kRandom));
  MILLRACE_ASSIGN_OR_RETURN(GraphFile graph, GraphFile::Open(std::move(file)));
  std::string text;
  const Status read = CatchCapnp([&]() -> Status {
    if (definition.node >= graph.node_count()) return DataLoss("changed while it was read");
    const auto label = graph.message().nodes[definition.node].getLabel();
    if (!label.isDefinition()) return DataLoss("changed while it was read");
    const auto from = label.getDefinition();
    if (!from.isTacticalConstant() && !from.isTacticalSectionConstant()) {
      return DataLoss("changed while it was read");
    }
    const auto steps =
        from.isTacticalConstant() ? from.getTacticalConstant() : from.getTacticalSectionConstant();
    if (record.step >= steps.size() || !steps[record.step].getTactic().isKnown()) {
      return DataLoss("changed while it was read");
    }
    const auto base_text = steps[record.step].getTactic().getKnown().getBaseText();
    text.assign(base_text.begin(), base_text.size());
    return OkStatus();
  });
  MILLRACE_RETURN_IF_ERROR(graph.file().CheckIntact());
  MILLRACE_RETURN_IF_ERROR(read);
  return text;
}

}  // namespace millrace
