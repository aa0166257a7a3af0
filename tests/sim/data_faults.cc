// The datasets of a simulated history: how they are opened, how plans compile over them, and the
// faults that change them.

#include <algorithm>
#include <utility>

#include "tests/sim/world.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A dataset is open within this time after a daemon was told of it.
constexpr Duration kOpens = seconds(1);
// A worker compiles a plan, or finds that files are bad, within this time.
constexpr Duration kCompiles = milliseconds(500);
// A process that was stopped for its data begins again after this time.
constexpr Duration kRestarts = seconds(1);

}  // namespace

// --- Faults

void World::StrikeData(const Fault& fault) {
  if (fault.kind == FaultKind::kBadData) {
    const Job& job = jobs_[fault.target % jobs_.size()];
    const std::vector<std::size_t>& datasets = job.setup.datasets;
    const std::size_t dataset = datasets[fault.other % datasets.size()];
    return DamageDispatcherData(kDatasets[dataset].id, fault.lasts);
  }
  const std::size_t w = fault.target % workers_.size();
  const std::set<std::size_t>& has = history_.datasets[w];
  if (has.empty()) return;
  const std::size_t which = fault.other / 2 % has.size();
  const std::string dataset = kDatasets[*std::next(has.begin(), static_cast<long>(which))].id;
  const bool restart = fault.other % 2 == 0;
  Disturb(fault.lasts);
  if (fault.kind == FaultKind::kBadWorkerData) return DamageWorkerData(w, dataset, fault.lasts);
  if (fault.kind == FaultKind::kLacksData) return LackData(w, dataset, restart, fault.lasts);
  ReplaceData(w, dataset, restart, fault.lasts);
}

void World::DamageWorkerData(std::size_t index, const std::string& dataset, Duration lasts) {
  DataCopy& copy = worker_data_[index][dataset];
  copy.damaged.insert(copy.version);
  ever_bad_data_.insert(dataset);
  // The file is put back, and the worker that had it open is started again.
  net_.After(lasts, [this, index, dataset] {
    worker_data_[index][dataset].damaged.clear();
    StopWorker(index, kRestarts);
  });
}

void World::DamageDispatcherData(const std::string& dataset, Duration lasts) {
  dispatcher_data_[dataset].damaged.insert(0);
  ever_bad_data_.insert(dataset);
  net_.After(lasts, [this, dataset] {
    dispatcher_data_[dataset].damaged.clear();
    for (std::size_t i = 0; i < dispatchers_.size(); ++i) StopDispatcher(i, kRestarts);
  });
}

void World::LackData(std::size_t index, const std::string& dataset, bool restart, Duration lasts) {
  if (restart) {  // its index is gone, and takes long to build
    worker_data_[index][dataset].open = false;
    StopWorker(index, kRestarts);
    return net_.After(lasts, [this, index, dataset] { OpenData(index, dataset); });
  }
  ReloadData(index, dataset, [](DataCopy& copy) { copy.configured = false; });
  net_.After(lasts, [this, index, dataset] {
    ReloadData(index, dataset, [](DataCopy& copy) { copy.configured = true; });
  });
}

void World::ReplaceData(std::size_t index, const std::string& dataset, bool restart,
                        Duration lasts) {
  const auto replace = [this, index, dataset, restart](DataVersion version) {
    if (!restart) {
      return ReloadData(index, dataset, [version](DataCopy& copy) { copy.version = version; });
    }
    worker_data_[index][dataset].version = version;
    StopWorker(index, kRestarts);
  };
  replace(1);
  net_.After(lasts, [replace] { replace(0); });
}

// --- Opening

void World::ReloadData(std::size_t index, const std::string& dataset,
                       const std::function<void(DataCopy&)>& change) {
  DataCopy& copy = worker_data_[index][dataset];
  change(copy);
  copy.open = false;
  OnDatasetsChanged(index);
  net_.After(net_.UpTo(kOpens), [this, index, dataset] { OpenData(index, dataset); });
}

void World::OpenData(std::size_t index, const std::string& dataset) {
  worker_data_[index][dataset].open = true;
  OnDatasetsChanged(index);
}

void World::OnDatasetsChanged(std::size_t index) {
  net_.In(workers_[index]->process, Duration{0}, [this, index] {
    workers_[index]->machine->OnDatasetsChanged(net_.now());
    AfterWorker(index);
  });
}

void World::OpenAtDispatcher(std::size_t index, const std::string& dataset) {
  DispatcherNode& node = *dispatchers_[index];
  if (!net_.IsUp(node.process)) return;
  node.open.insert(dataset);
  v1::DatasetState state = dispatcher_data_.States().at(dataset);
  for (v1::FileEntry& file : dispatcher_data_.Files(dataset)) {
    *state.add_file_list() = std::move(file);
  }
  OnDispatcher(index, node.machine->OnDataset(dataset, state, Now()));
}

// --- Plans

Result<std::shared_ptr<const PlanFacts>> World::CompileAtDispatcher(
    std::size_t index, const v1::PipelineText& pipeline) const {
  for (const std::string& dataset : DatasetsOf(pipeline)) {
    if (!dispatchers_[index]->open.contains(dataset)) {
      return Unavailable("dataset '" + dataset + "' is being opened");
    }
  }
  return dispatcher_data_.Compile(pipeline);
}

Actions World::CompilePlanAt(std::size_t index, const CompilePlan& plan) {
  DispatcherMachine& machine = *dispatchers_[index]->machine;
  if (plan.answer) {
    return machine.OnPlanCompiled(plan.key, ReadAnswer(plan.pipeline, *plan.answer), Now());
  }
  const std::optional<ColumnWant> want = MissingColumns(index, plan.pipeline);
  if (want) return machine.OnColumnsMissing(plan.key, *want, Now());
  const auto compiled = CompileAtDispatcher(index, plan.pipeline);
  if (compiled.status().code() == StatusCode::kDataLoss) {
    ++counts_.damaged_plans;
    return machine.OnDataDamaged(plan.key, compiled.status(), DatasetsOf(plan.pipeline), Now());
  }
  return machine.OnPlanCompiled(plan.key, compiled, Now());
}

Result<std::shared_ptr<const PlanFacts>> World::ReadAnswer(const v1::PipelineText& pipeline,
                                                           const v1::PlanAnswer& answer) const {
  for (HostData data : worker_data_) {
    // An outline says nothing of damage.
    for (const std::string& dataset : DatasetsOf(pipeline)) data[dataset].damaged.clear();
    auto plan = data.Compile(pipeline);
    if (plan.ok() && (*plan)->fingerprint().ToString() == answer.outline().fingerprint()) {
      return plan;
    }
  }
  return Unavailable("the worker has other data by now");
}

void World::CompileAtWorker(std::size_t index, const v1::PlanSpec& spec) {
  net_.In(workers_[index]->process, net_.UpTo(kCompiles), [this, index, spec] {
    WorkerNode& node = *workers_[index];
    const HostData& data = worker_data_[index];
    const std::string& fingerprint = spec.fingerprint();
    if (!node.machine->plans().contains(fingerprint)) return;
    if (data.IsOpening(spec.pipeline())) return CompileAtWorker(index, spec);
    Result<WorkerMachine::ReadyPlan> compiled =
        WorkerMachine::ReadyPlan{nullptr, std::string(32, '5'), "", "the plugin differs"};
    const auto plan = data.Compile(spec.pipeline());
    if (!plan.ok()) {
      compiled = plan.status();
    } else if (!IsMeasured(spec.pipeline()) || (ColumnOf(spec.pipeline()) && net_.Chance(0.2))) {
      compiled = Unavailable("its column cannot be fetched now");
    } else {
      compiled->fingerprint = (*plan)->fingerprint().ToString();
      if (spec.asked()) {
        compiled->answer.emplace().mutable_outline()->set_fingerprint(compiled->fingerprint);
      }
      node.plans[fingerprint] = data.DataOf(spec.pipeline());
    }
    node.machine->OnPlan(fingerprint, std::move(compiled), net_.now());
    AfterWorker(index);
  });
}

void World::SnapshotFiles(std::size_t index) {
  net_.In(workers_[index]->process, net_.UpTo(kCompiles), [this, index] {
    WorkerNode& node = *workers_[index];
    std::map<std::string, Status> bad;
    for (const auto& [fingerprint, plan] : node.plans) {
      const Status intact = worker_data_[index].CheckIntact(plan);
      if (!intact.ok() && node.machine->FindReady(fingerprint) != nullptr) {
        bad.emplace(fingerprint, intact);
      }
    }
    for (const auto& [fingerprint, why] : bad) {
      node.machine->OnPlan(fingerprint, why, net_.now());
      if (node.machine->FindReady(fingerprint) != nullptr) {
        Fail("I11: a worker serves a plan over files that it has found bad");
      }
    }
    if (!bad.empty()) AfterWorker(index);
  });
}

}  // namespace millrace::sim
