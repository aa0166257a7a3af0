#include "server/daemon/column_adapters.h"
#include "server/daemon/plan_adapters.h"
#include "server/dispatcher/service/plan_compiler.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "server/plan/make_plan_facts.h"
#include "server/plan/text/pipeline.h"

namespace millrace {
namespace {

PipelineSource ToSource(const v1::PipelineText& text) {
  PipelineSource source;
  source.yaml = text.yaml();
  source.variant = text.variant();
  source.overrides.assign(text.overrides().begin(), text.overrides().end());
  return source;
}

/// The first of some datasets that is being opened.
std::optional<DatasetStatus> FirstOpening(PlanLibrary& library,
                                          const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    Result<DatasetStatus> status = library.GetStatus(id);
    if (status.ok() && status->opening) return std::move(*status);
  }
  return std::nullopt;
}

class LibraryProvider final : public PlanProvider {
 public:
  LibraryProvider(std::shared_ptr<PlanLibrary> library, std::shared_ptr<PluginRegistry> plugins)
      : library_(std::move(library)), plugins_(std::move(plugins)) {}

  Result<std::shared_ptr<const Plan>> CompilePlan(const v1::PipelineText& pipeline) override {
    return library_->Compile(ToSource(pipeline));
  }
  std::optional<v1::ColumnSet> MissingColumns(const v1::PipelineText& text) override {
    const Result<Pipeline> pipeline = library_->Parse(ToSource(text));
    if (!pipeline.ok()) return std::nullopt;
    return FindUnfetchedColumns(*library_, *pipeline);
  }
  bool CanCompile(const v1::PlanSpec& spec) override {
    std::vector<std::string> ids(spec.datasets().begin(), spec.datasets().end());
    if (ids.empty()) {
      const Result<Pipeline> pipeline = library_->Parse(ToSource(spec.pipeline()));
      if (pipeline.ok()) ids = pipeline->datasets();
    }
    // Errors, if there are any, come from compiling.
    return !FirstOpening(*library_, ids).has_value();
  }
  void OpenDatasets(const std::function<void()>& on_change) override {
    // The library keeps and logs the errors. They also appear in the dataset states.
    library_->OpenAll([&on_change](const std::string&, const Status&) { on_change(); });
  }
  std::map<std::string, v1::DatasetState> DatasetStates() override {
    std::map<std::string, v1::DatasetState> states;
    for (const std::string& id : library_->dataset_ids()) {
      if (const auto status = library_->GetStatus(id); status.ok()) {
        states[id] = ToProto(*status);
        // Reports come once a second, and a dispatcher with this dataset knows the list itself.
        states[id].clear_left_out();
      }
    }
    return states;
  }
  bool CheckFiles(const std::stop_token& stop) override { return library_->CheckFiles(stop); }
  Status CheckPlan(const Plan& plan) override {
    return plan.source() == nullptr ? OkStatus() : plan.source()->CheckIntact();
  }
  std::vector<v1::FileEntry> ListFiles(const std::string& dataset) override {
    std::vector<v1::FileEntry> files;
    const auto opened = library_->Open(dataset);
    if (!opened.ok()) return files;
    for (DatasetFile& file : (*opened)->Files()) {
      v1::FileEntry& entry = files.emplace_back();
      entry.set_name(std::move(file.name));
      entry.set_size(file.size);
      entry.set_digest(file.digest.ToBytes());
    }
    return files;
  }
  BuiltExamples* examples() override { return library_->examples().get(); }
  std::vector<PluginPoolStats> Plugins() override {
    return plugins_ == nullptr ? std::vector<PluginPoolStats>() : plugins_->Stats();
  }
  void SetMostProcesses(const std::map<std::uint64_t, int>& processes) override {
    if (plugins_ != nullptr) plugins_->SetMostProcesses(processes);
  }
  void WatchPlugins(OnPluginRequest on_request) override {
    if (plugins_ != nullptr) plugins_->SetOnRequest(std::move(on_request));
  }
  Result<std::unique_ptr<RangeMeasurer>> NewMeasurer(const v1::ColumnSet& set,
                                                     const v1::PipelineText& pipeline) override {
    MILLRACE_ASSIGN_OR_RETURN(const Pipeline parsed, library_->Parse(ToSource(pipeline)));
    return MakeRangeMeasurer(*library_, parsed, set);
  }

 private:
  const std::shared_ptr<PlanLibrary> library_;
  const std::shared_ptr<PluginRegistry> plugins_;
};

class LibraryCompiler final : public PlanCompiler {
 public:
  LibraryCompiler(std::shared_ptr<PlanLibrary> library, bool keep_plans,
                  std::shared_ptr<KeptColumns> columns)
      : library_(std::move(library)), keep_plans_(keep_plans), columns_(std::move(columns)) {}

  Result<std::shared_ptr<const PlanFacts>> Compile(const v1::PipelineText& text) override {
    MILLRACE_ASSIGN_OR_RETURN(const Pipeline pipeline, library_->Parse(ToSource(text)));
    // Fails and does not wait, because the plans of other datasets need the thread.
    if (const auto dataset = FirstOpening(*library_, pipeline.datasets())) {
      return Unavailable(fmt::format("dataset '{}' is being opened ({:.0f} % of its index made)",
                                     dataset->id, 100 * dataset->indexing));
    }
    MILLRACE_ASSIGN_OR_RETURN(const auto plan, library_->Compile(pipeline));
    MILLRACE_ASSIGN_OR_RETURN(PlanFacts facts, WithPipeline(plan->facts(), pipeline));
    if (!keep_plans_) return std::make_shared<const PlanFacts>(std::move(facts));
    const auto both = std::make_shared<const std::pair<PlanFacts, std::shared_ptr<const Plan>>>(
        std::move(facts), plan);
    return std::shared_ptr<const PlanFacts>(both, &both->first);
  }
  std::optional<ColumnWant> MissingColumns(const v1::PipelineText& text) override {
    const Result<Pipeline> pipeline = library_->Parse(ToSource(text));
    if (columns_ == nullptr || !pipeline.ok()) return std::nullopt;
    if (FirstOpening(*library_, pipeline->datasets())) return std::nullopt;
    return FindMissingColumns(*library_, *pipeline, *columns_);
  }
  std::vector<std::string> NamedBy(const v1::PipelineText& text) override {
    const Result<Pipeline> pipeline = library_->Parse(ToSource(text));
    if (!pipeline.ok()) return {};
    std::vector<std::string> ids = library_->NamedPlugins(*pipeline);
    ids.insert(ids.end(), pipeline->datasets().begin(), pipeline->datasets().end());
    return ids;
  }
  std::vector<std::string> MissingPlugins(const v1::PipelineText& text) override {
    // This process's own worker could not serve such a plan.
    if (keep_plans_) return {};
    const Result<Pipeline> pipeline = library_->Parse(ToSource(text));
    return pipeline.ok() ? library_->MissingPlugins(*pipeline) : std::vector<std::string>();
  }
  Result<std::shared_ptr<const PlanFacts>> Read(const v1::PipelineText& text,
                                                const v1::PlanOutline& outline) override {
    MILLRACE_ASSIGN_OR_RETURN(const Pipeline pipeline, library_->Parse(ToSource(text)));
    MILLRACE_ASSIGN_OR_RETURN(const PlanFacts sent, PlanFacts::FromProto(outline));
    MILLRACE_ASSIGN_OR_RETURN(PlanFacts facts, WithPipeline(sent, pipeline));
    return std::make_shared<const PlanFacts>(std::move(facts));
  }
  Result<std::optional<ColumnWant>> MissingColumns(const v1::ColumnSet& set) override {
    if (columns_ == nullptr) return std::optional<ColumnWant>();
    return BeginColumns(set, library_->ColumnFoldersOf(set.dataset()), *columns_);
  }
  std::shared_ptr<ColumnKeeper> column_keeper() override {
    return columns_ == nullptr ? nullptr : MakeColumnKeeper(columns_);
  }

 private:
  const std::shared_ptr<PlanLibrary> library_;
  const bool keep_plans_;
  const std::shared_ptr<KeptColumns> columns_;
};

}  // namespace

v1::DatasetState ToProto(const DatasetStatus& status) {
  v1::DatasetState state;
  state.set_kind(status.kind);
  if (status.open) state.set_digest(status.digest.ToHex());
  state.set_verifying(status.open ? 1 : status.indexing);
  state.set_error(status.error);
  state.set_files(status.files);
  state.set_examples(status.examples);
  state.set_left_out_files(status.left_out_files);
  state.set_unverified(status.unverified);
  state.set_in_memory_bytes(status.in_memory_bytes);
  for (const BadFile& file : status.left_out) {
    v1::LeftOutFile& out = *state.add_left_out();
    out.set_name(Escaped(file.name));
    out.set_reason(file.reason);
  }
  return state;
}

std::shared_ptr<PlanProvider> MakePlanProvider(std::shared_ptr<PlanLibrary> library,
                                               std::shared_ptr<PluginRegistry> plugins) {
  return std::make_shared<LibraryProvider>(std::move(library), std::move(plugins));
}

std::shared_ptr<PlanCompiler> MakePlanCompiler(std::shared_ptr<PlanLibrary> library,
                                               bool keep_plans,
                                               std::shared_ptr<KeptColumns> columns) {
  return std::make_shared<LibraryCompiler>(std::move(library), keep_plans, std::move(columns));
}

}  // namespace millrace
