// The checks of I11: what workers, lists and jobs have to do with datasets.

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "server/dispatcher/machine/usable_workers.h"
#include "tests/sim/world.h"

namespace millrace::sim {
namespace {

using std::chrono::seconds;

// A trainer is told within this time that no worker has its dataset. It may have to find a
// dispatcher first.
constexpr Duration kTold = seconds(8);
// A job ends within this time after the last worker that could serve it has found its files bad.
constexpr Duration kGivenUp = seconds(6);

/// Whether a worker reports all datasets of a plan, with the digests that the plan's fingerprint
/// has together.
bool ReportsData(const v1::WorkRequest& report, const v1::PlanSpec& plan) {
  std::vector<Digest128> digests;
  for (const std::string& dataset : plan.datasets()) {
    const auto has = report.datasets().find(dataset);
    if (has == report.datasets().end() || has->second.digest().empty()) return false;
    digests.push_back(*Digest128::FromHex(has->second.digest()));
  }
  return test::JointDigest(digests) == Fingerprint::FromString(plan.fingerprint())->dataset;
}

}  // namespace

void World::CheckPlansTold(const DispatcherNode& node, const millrace::SendWork& action) {
  if (!action.message.has_id()) return;
  const Worker* worker = node.machine->facts().FindWorker(WorkerId(FromProto(action.message.id())));
  if (worker == nullptr) return;  // it has left meanwhile
  const v1::WorkRequest& report = worker->report;
  for (const v1::PlanSpec& plan : action.message.plans()) {
    if (plan.asked()) {
      for (const std::string& dataset : DatasetsOf(plan.pipeline())) {
        const auto has = report.datasets().find(dataset);
        if (has != report.datasets().end() && !has->second.digest().empty()) continue;
        Fail(fmt::format("I11: {} is asked for a plan over {}, which it lacks", report.name(),
                         dataset));
      }
      continue;
    }
    // A worker keeps the plans of an earlier dispatcher, of which only a record is left.
    if (plan.datasets().empty() &&
        std::any_of(report.plans().begin(), report.plans().end(),
                    [&](const auto& has) { return has.fingerprint() == plan.fingerprint(); })) {
      continue;
    }
    if (ReportsData(report, plan)) continue;
    Fail(fmt::format("I11: {} shall keep a plan over {}, of which it has not these data",
                     report.name(), fmt::join(plan.datasets(), " and ")));
  }
}

/// Checks that a member of a list has said that it has the plan, and has compiled it.
void World::CheckMemberData(const DispatcherNode& node, LinkId stream,
                            const v1::WorkerRef& member) {
  const DispatcherFacts& facts = node.machine->facts();
  const StreamFacts* from = facts.FindStream(stream);
  const SessionFacts* session = from == nullptr ? nullptr : facts.FindSession(from->session);
  const WorkerId id(FromProto(member.id()));
  const Worker* worker = facts.FindWorker(id);
  if (session == nullptr || worker == nullptr) return;
  const std::string& fingerprint = session->plan->fingerprint;
  for (const auto& w : workers_) {
    const auto plan = w->plans.find(fingerprint);
    if (w->machine->id() != id || plan == w->plans.end() || plan->second.code == 0) continue;
    Fail(fmt::format("I14: the list of {} has {}, which has other code", RankOfJob(session->hello),
                     worker->report.name()));
  }
  const bool compiled = std::none_of(workers_.begin(), workers_.end(), [&](const auto& w) {
    return net_.IsUp(w->process) && w->machine->id() == id && !w->plans.contains(fingerprint);
  });
  if (worker->ready.contains(fingerprint) && compiled) return;
  Fail(fmt::format("I11: the list of {} has {}, which has not its plan over {}",
                   RankOfJob(session->hello), worker->report.name(),
                   fmt::join(DatasetsOf(session->hello.pipeline()), " and ")));
}

/// Checks that a trainer is told exactly which datasets the named worker's configuration lacks.
void World::CheckReason(const DispatcherNode& node, const millrace::SendAttach& action) {
  const std::string& why = action.message.waiting().why();
  const DispatcherFacts& facts = node.machine->facts();
  const StreamFacts* stream = facts.FindStream(action.stream);
  const SessionFacts* session = stream == nullptr ? nullptr : facts.FindSession(stream->session);
  if (session == nullptr || why.rfind("no worker has the dataset", 0) != 0) return;
  for (const auto& [id, worker] : facts.workers()) {
    const std::size_t at = why.find(fmt::format(": worker {} at ", worker.report.name()));
    if (at == std::string::npos || !IsHeard(worker, net_.now(), dispatcher_options_) ||
        worker.draining()) {
      continue;
    }
    const std::string reason = why.substr(at);
    const bool lacks = reason.find("its configuration has no") != std::string::npos;
    std::size_t missing = 0;
    for (const std::string& dataset : DatasetsOf(session->hello.pipeline())) {
      if (worker.report.datasets().contains(dataset)) continue;
      ++missing;
      if (lacks && reason.find(dataset) != std::string::npos) continue;
      return Fail(fmt::format("I11: {} is not told that {} lacks {}: '{}'",
                              RankOfJob(session->hello), worker.report.name(), dataset, why));
    }
    if (lacks && missing == 0) {
      return Fail(fmt::format("I11: {} is told of datasets that {} has: '{}'",
                              RankOfJob(session->hello), worker.report.name(), why));
    }
  }
}

/// Checks that a dispatcher ends a session for want of workers, or because its own data are
/// damaged, only if it knows none for it.
void World::CheckEndedForData(const DispatcherNode& node, LinkId stream, const Status& status) {
  const std::optional<AtLink> ended = TrainerAt(stream);
  const bool for_data = status.message().find("no worker is left") != std::string::npos ||
                        status.message().find("a.bin was cut off") != std::string::npos;
  if (!ended || !for_data) return;
  const TrainerNode& trainer = *trainers_[ended->index];
  if (!trainer.state->admission()) return;  // its column cannot be measured
  const std::string fingerprint = trainer.state->admission()->fingerprint.ToString();
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const WorkerNode& worker = *workers_[w];
    const Worker* known = node.machine->facts().FindWorker(worker.machine->id());
    if (!net_.IsUp(worker.process) || known == nullptr) continue;
    if (!IsHeard(*known, net_.now(), dispatcher_options_) || known->draining() ||
        !known->ready.contains(fingerprint) || worker.machine->FindReady(fingerprint) == nullptr) {
      continue;
    }
    if (!worker_data_[w].CheckIntact(worker.plans.at(fingerprint)).ok()) continue;
    if (FailsWhatWasTried(jobs_[trainer.job], w)) continue;
    Fail(fmt::format("I11: {} ends while {} serves its plan: {}", trainer.where,
                     known->report.name(), status.message()));
  }
}

bool World::IsLossOfData(const Job& job, const Status& status) const {
  const std::vector<std::size_t>& datasets = job.setup.datasets;
  return status.code() == StatusCode::kDataLoss && !job.setup.excludes &&
         std::any_of(datasets.begin(), datasets.end(), [&](std::size_t index) {
           const std::string dataset = kDatasets[index].id;
           return ever_bad_data_.contains(dataset) &&
                  status.message().find("dataset '" + dataset + "': a.bin") != std::string::npos;
         });
}

void World::CheckDataWait(TrainerNode& trainer) {
  const JobSetup& setup = jobs_[trainer.job].setup;
  const auto of_all = [&setup](const auto& holds) {
    return std::all_of(setup.datasets.begin(), setup.datasets.end(),
                       [&](std::size_t dataset) { return holds(kDatasets[dataset].id); });
  };
  const std::string fingerprint = trainer.state->admission()->fingerprint.ToString();
  bool some_has = false;  // a worker has the datasets, or still a plan over them
  bool some_may = false;  // a worker serves the plan or may do so later
  bool some_lost = false;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const WorkerNode& worker = *workers_[w];
    const HostData& data = worker_data_[w];
    if (!net_.IsUp(worker.process)) continue;
    const auto plan = worker.machine->plans().find(fingerprint);
    const bool knows = plan != worker.machine->plans().end();
    some_has |= knows || of_all([&](const char* id) { return data.Of(id).serves(); });
    const bool lost = knows && plan->second.phase == v1::FAILED &&
                      plan->second.error.code() == StatusCode::kDataLoss;
    some_lost |= lost;
    some_may |= !lost && of_all([&](const char* id) { return data.Of(id).configured; });
  }
  const bool led = std::any_of(dispatchers_.begin(), dispatchers_.end(), [&](const auto& d) {
    return net_.IsUp(d->process) && !net_.StandsStill(d->process) &&
           Reaches(trainer.process, d->process);
  });
  const auto since = [&](std::optional<Time>& began, bool holds) {
    if (!holds || !led || !trainer.waits_since) {
      began.reset();
      return Duration{0};
    }
    if (!began) began = net_.now();
    return net_.now() - std::max(*began, disturbed_until_);
  };
  const bool leaseless = trainer.state->cause() == WaitCause::kLease;
  const bool said = of_all(
      [&](const char* id) { return trainer.state->waiting_why().find(id) != std::string::npos; });
  if (!some_has && leaseless && said && !trainer.datasetless_since) ++counts_.reasons_told;
  if (since(trainer.datasetless_since, !some_has) > kTold && leaseless && !said) {
    Fail(fmt::format("I11: {} waits for a worker while none has {}, and is told '{}'",
                     trainer.where, IdsOf(setup.datasets), trainer.state->waiting_why()));
  }
  // Workers that died may come back, and a dispatcher waits for them.
  const bool counts = history_.HasOneFault() || history_.faults.empty();
  if (since(trainer.unviable_since, counts && some_lost && !some_may) > kGivenUp) {
    Fail(fmt::format("I11: {} waits while no worker is left that has {} whole", trainer.where,
                     IdsOf(setup.datasets)));
  }
}

}  // namespace millrace::sim
