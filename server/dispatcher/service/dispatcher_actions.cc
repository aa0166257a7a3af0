// The service carries out the actions of the dispatcher's machine.

#include <exception>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "server/dispatcher/service/dispatcher_service.h"
#include "server/dispatcher/service/plan_compiler.h"

namespace millrace {
namespace {

void WriteLog(Logger& logger, const LogEvent& e) {
  const auto field = [&](std::size_t i) { return LogField(e.fields[i].first, e.fields[i].second); };
  switch (e.fields.size()) {
    case 0:
      return logger.Log(e.level, e.event, {});
    case 1:
      return logger.Log(e.level, e.event, {field(0)});
    case 2:
      return logger.Log(e.level, e.event, {field(0), field(1)});
    case 3:
      return logger.Log(e.level, e.event, {field(0), field(1), field(2)});
    default:
      return logger.Log(e.level, e.event, {field(0), field(1), field(2), field(3)});
  }
}

using Compiled = Result<std::shared_ptr<const PlanFacts>>;
using MissingPlugins = std::vector<std::string>;
/// Data of this host are damaged.
struct DamagedData {
  Status why;
  std::vector<std::string> named;  // by the pipeline
};
/// The answers to a CompilePlan.
using CompileAnswer = std::variant<Compiled, ColumnWant, MissingPlugins, DamagedData>;

CompileAnswer CompileHere(PlanCompiler& compiler, const v1::PipelineText& pipeline) {
  MissingPlugins plugins = compiler.MissingPlugins(pipeline);
  if (!plugins.empty()) return plugins;
  Compiled plan = compiler.Compile(pipeline);
  if (plan.status().code() == StatusCode::kUnavailable) {
    if (auto want = compiler.MissingColumns(pipeline)) return *std::move(want);
  }
  if (plan.status().code() == StatusCode::kDataLoss) {
    return DamagedData{plan.status(), compiler.NamedBy(pipeline)};
  }
  return plan;
}

/// Reads what a worker has found out.
CompileAnswer ReadAnswer(PlanCompiler& compiler, const v1::PipelineText& pipeline,
                         const v1::PlanAnswer& answer) {
  if (answer.has_outline()) return compiler.Read(pipeline, answer.outline());
  auto want = compiler.MissingColumns(answer.lacks());
  if (!want.ok()) return Compiled(want.status());
  if (*want) return **std::move(want);
  return Compiled(Unavailable("its columns have come meanwhile"));
}

CompileAnswer CompileSafely(PlanCompiler& compiler, const CompilePlan& action) {
  try {
    return action.answer ? ReadAnswer(compiler, action.pipeline, *action.answer)
                         : CompileHere(compiler, action.pipeline);
  } catch (const std::exception& e) {
    return Compiled(Internal(fmt::format("compiling the plan failed: {}", e.what())));
  }
}

}  // namespace

void DispatcherService::Perform(Actions actions) {
  for (Action& action : actions) {
    std::visit([this](auto& a) { Do(a); }, action);
  }
  leads_ = dispatcher_->stepped_down().ok();
  if (!leads_) BeginAnew();
}

// Only this process writes to the store, so there is no other dispatcher that peers could go to. If
// a peer has seen a higher term, that came from an earlier store or clock. Peers follow a term that
// is still higher. They bring back all other facts, as after a start.
void DispatcherService::BeginAnew() {
  if (beginning_ || clock_->Now() < begin_again_at_) return;
  beginning_ = true;
  // On the thread that writes the records, so that those that wait to be written come first.
  committer_.Post([this, queue = queue_, above = dispatcher_->seen_term()] {
    auto begun = BeginTerm(*store_, *clock_, above);
    queue->Post([this, begun = std::move(begun)] { Begun(begun); });
  });
}

void DispatcherService::Check(const Status& stored) const {
  if (stored.code() == StatusCode::kInternal && hooks_.on_broken_store) {
    hooks_.on_broken_store(stored);
  }
}

void DispatcherService::Begun(const Result<TermRecords>& begun) {
  beginning_ = false;
  if (!begun.ok()) {
    Check(begun.status());
    begin_again_at_ = clock_->Now() + options_.retry;
    logger_->Error("a new term cannot be begun; it is tried again",
                   {{"over", term_.load()}, {"why", begun.status()}});
    return;
  }
  logger_->Warning("began a new term; all sessions and workers come back to it",
                   {{"term", begun->term}, {"why", dispatcher_->stepped_down()}});
  term_ = begun->term;
  dispatcher_.emplace(options_, begun->term, begun->jobs, Now(),
                      [this](const Update& update) { counters_.WillApply(update); });
  for (const auto& [id, dataset] : datasets_) Perform(dispatcher_->OnDataset(id, dataset, Now()));
}

void DispatcherService::Do(SendAttach& action) {
  const auto it = attach_streams_.find(action.stream);
  if (it != attach_streams_.end()) it->second->Send(std::move(action.message));
}

void DispatcherService::Do(SendWork& action) {
  const auto it = work_streams_.find(action.stream);
  if (it != work_streams_.end()) it->second->Send(std::move(action.message));
}

void DispatcherService::Do(CloseStream& action) {
  if (const auto it = attach_streams_.find(action.stream); it != attach_streams_.end()) {
    refusals_.Count("Attach", action.status);
    it->second->Close(action.status);
    attach_streams_.erase(it);
  }
  if (const auto it = work_streams_.find(action.stream); it != work_streams_.end()) {
    refusals_.Count("Work", action.status);
    it->second->Close(action.status);
    work_streams_.erase(it);
  }
}

void DispatcherService::Do(CompilePlan& action) {
  compilers_.Post([this, queue = queue_, action = std::move(action)] {
    if (queue->closed()) return;
    queue->Post([this, key = action.key, answer = CompileSafely(*compiler_, action)] {
      if (const auto* want = std::get_if<ColumnWant>(&answer)) {
        Perform(dispatcher_->OnColumnsMissing(key, *want, Now()));
      } else if (const auto* plugins = std::get_if<MissingPlugins>(&answer)) {
        Perform(dispatcher_->OnPluginsMissing(key, *plugins, Now()));
      } else if (const auto* damaged = std::get_if<DamagedData>(&answer)) {
        Perform(dispatcher_->OnDataDamaged(key, damaged->why, damaged->named, Now()));
      } else {
        Perform(dispatcher_->OnPlanCompiled(key, std::get<Compiled>(answer), Now()));
      }
    });
  });
}

void DispatcherService::Do(KeepMeasured& action) {
  // Also where the dispatcher stops: the next one goes on with it.
  keeper_.Post([this, measured = std::move(action.measured)] {
    const Status kept = columns_->Keep(measured);
    if (!kept.ok()) logger_->Error("measured values cannot be kept", {{"why", kept}});
  });
}

void DispatcherService::Do(FinishColumns& action) {
  keeper_.Post([this, queue = queue_, action = std::move(action)] {
    if (queue->closed()) return;
    const Status kept = columns_->Finish(action.set);
    queue->Post(
        [this, key = action.key, kept] { Perform(dispatcher_->OnColumnsKept(key, kept, Now())); });
  });
}

void DispatcherService::Do(AbandonColumns& action) {
  keeper_.Post([this, queue = queue_, set = std::move(action.set)] {
    if (!queue->closed()) columns_->Abandon(set);
  });
}

void DispatcherService::Do(CommitRecord& action) {
  committer_.Post([this, queue = queue_, term = term_.load(), record = std::move(action.record)] {
    const Time began = clock_->Now();
    const Status status = store_->CommitJob(term, record, clock_->UnixSeconds());
    Check(status);
    const double seconds = ToSeconds(clock_->Now() - began);
    queue->Post([this, record, status, seconds] {
      counters_.Committed(seconds, status);
      Perform(dispatcher_->OnRecordCommitted(record, status, Now()));
    });
  });
}

void DispatcherService::Do(LogEvent& action) { WriteLog(*logger_, action); }

}  // namespace millrace
