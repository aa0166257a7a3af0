// The plugins of a simulated history: jobs whose examples the code of a user builds. This code
// fails for some examples, and a host may have other code.

#include "tests/sim/plugins.h"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "common/base/refusal.h"
#include "tests/sim/world.h"

namespace millrace::sim {

Status FailureOfCode(std::uint64_t example) {
  return Aborted(fmt::format("example {} cannot be built: ValueError", example));
}

std::string PluginLines(const JobSetup& setup) {
  if (!setup.plugin) return {};
  std::string lines = "plugin=1\n";
  if (setup.fails) lines += fmt::format("fails={}\n", *setup.fails);
  std::vector<std::string> at;
  for (const auto& [worker, example] : setup.fails_at) {
    at.push_back(fmt::format("{}:{}", worker, example));
  }
  if (!at.empty()) lines += fmt::format("fails_at={}\n", fmt::join(at, ","));
  return lines;
}

void World::StrikeCode(const Fault& fault) {
  const std::size_t index = fault.target % workers_.size();
  const bool restart = fault.other % 2 == 0;
  Disturb(fault.lasts);
  const auto replace = [this, index, restart](std::uint32_t code) {
    worker_data_[index].code = code;
    if (restart) return StopWorker(index, std::chrono::seconds(1));
    OnDatasetsChanged(index);
  };
  replace(1);
  net_.After(fault.lasts, [replace] { replace(0); });
}

/// Checks that no batch is tried too often: by one worker again, or by a third one. Workers are
/// told apart as the trainer does: one that has died may have the address of the one after it.
void World::OnRefusal(TrainerNode& trainer, std::size_t index, client::StreamId stream,
                      const v1::Refused& refused) {
  if (static_cast<StatusCode>(refused.code()) != StatusCode::kAborted) return;
  WorkerId worker;
  for (const auto& [id, link] : trainer.state->workers().all()) {
    if (link.stream.id == stream) worker = id;
  }
  if (!worker.is_set()) return;  // the trainer has closed the stream
  const std::uint64_t step = trainer.state->steps().Index(FromProto(refused.at()));
  if (!trainer.state->asks().Of(worker).steps.contains(step)) return;  // it is here by now
  // A refusal that the network repeats is no second try.
  const bool repeats =
      std::any_of(history_.faults.begin(), history_.faults.end(),
                  [](const Fault& fault) { return fault.kind == FaultKind::kRepeatMessages; });
  if (!trainer.tried[step].emplace(worker, index).second && !repeats) {
    Fail(fmt::format("I14: {} failed to build step {} of {} and was given it again",
                     worker.ToString(), step, trainer.where));
  }
  // A process that takes another one's place may be asked twice: under the number that the
  // dispatcher knows, and by the consumer itself under that of the dead one, whose address it has.
  std::set<std::size_t> hosts;
  for (const auto& [id, host] : trainer.tried[step]) hosts.insert(host);
  if (hosts.size() > kWorkersTryCode) {
    Fail(
        fmt::format("I14: {} workers have tried step {} of {}", hosts.size(), step, trainer.where));
  }
}

bool World::FailsNext(const TrainerNode& trainer, const WorkerNode& worker) const {
  const auto plan = worker.plans.find(trainer.state->admission()->fingerprint.ToString());
  if (plan == worker.plans.end() || !trainer.expected) return false;
  const auto index =
      static_cast<std::size_t>(std::find_if(workers_.begin(), workers_.end(),
                                            [&](const auto& w) { return w.get() == &worker; }) -
                               workers_.begin());
  return plan->second.FailsOf(index, trainer.places.Of(*trainer.expected, trainer.rank))
      .has_value();
}

bool World::FailsWhatWasTried(const Job& job, std::size_t index) const {
  PlanData plan;
  plan.fails = job.setup.fails;
  plan.fails_at = job.setup.fails_at;
  return std::any_of(trainers_.begin(), trainers_.end(), [&](const auto& t) {
    const TrainerNode& trainer = *t;
    return &jobs_[trainer.job] == &job &&
           std::any_of(trainer.tried.begin(), trainer.tried.end(), [&](const auto& tried) {
             const Position at = trainer.state->steps().At(tried.first);
             return plan.FailsOf(index, trainer.places.Of(at, trainer.rank)).has_value();
           });
  });
}

bool World::IsFailureOfCode(const TrainerNode& trainer, const Status& status) const {
  const Job& job = jobs_[trainer.job];
  const std::string& said = status.message();
  if (status.code() != StatusCode::kDataLoss || !job.setup.plugin) return false;
  std::vector<std::uint64_t> examples;
  if (job.setup.fails) examples.push_back(*job.setup.fails);
  for (const auto& [worker, example] : job.setup.fails_at) examples.push_back(example);
  const bool named = std::any_of(examples.begin(), examples.end(), [&](std::uint64_t example) {
    return said.find(FailureOfCode(example).message()) != std::string::npos;
  });
  if (!named) return false;
  if (said.find("no worker is left") != std::string::npos) return true;  // see CheckEndedForData
  // Two workers have to have tried one batch, for a trainer of this launch or of an earlier one
  // that stood still.
  return said.find("three tries failed") != std::string::npos &&
         std::any_of(trainers_.begin(), trainers_.end(), [&](const auto& of_job) {
           return of_job->job == trainer.job &&
                  std::any_of(of_job->tried.begin(), of_job->tried.end(), [](const auto& step) {
                    return step.second.size() >= kWorkersTryCode;
                  });
         });
}

void World::EndFailed(const TrainerNode& trainer) {
  Job& job = jobs_[trainer.job];
  if (job.done) return;
  // A worker that fails is followed by another process on its host, which fails too. The job may
  // end then although another host can build the batch. So it is launched again.
  std::set<std::size_t> able;
  for (std::size_t w = 0; w < history_.datasets.size(); ++w) {
    const auto& has = history_.datasets[w];
    const bool all = std::all_of(job.setup.datasets.begin(), job.setup.datasets.end(),
                                 [&](std::size_t dataset) { return has.contains(dataset); });
    if (all && !FailsWhatWasTried(job, w)) able.insert(w);
  }
  std::set<std::size_t> hosts;
  for (const auto& of_job : trainers_) {
    if (of_job->job != trainer.job) continue;
    for (const auto& [step, workers] : of_job->tried) {
      std::set<std::size_t> of_step;
      for (const auto& [worker, index] : workers) of_step.insert(index);
      if (of_step.size() > hosts.size()) hosts = of_step;
    }
  }
  if (!able.empty() && hosts.size() < kWorkersTryCode) return;
  ++counts_.failed_jobs;
  job.done = true;
  ++job.launches;  // trainers that have not begun never will
  Note(job.name + " has ended with an error of its plugin");
  for (const std::size_t t : job.trainers) {
    trainers_[t]->gone = true;
    net_.Kill(trainers_[t]->process);
  }
}

}  // namespace millrace::sim
