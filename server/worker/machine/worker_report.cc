// The worker's stream to the dispatcher. The worker reports all that it knows once a second; the
// dispatcher answers which plans the worker has to keep.

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/mutant.h"
#include "common/base/protocol_version.h"
#include "common/batch/layout/semantics.h"
#include "common/transport/convert/places.h"
#include "server/worker/machine/worker_machine.h"

namespace millrace {
namespace {

constexpr Duration kSayAgain = std::chrono::minutes(1);
/// Pauses before the next attempt are random, in seconds: so workers that lose their dispatcher
/// together come back spread out. The longest first pause is kFirstRetry. Those of a round through
/// all addresses take kLongestRound at most, so that a dispatcher has its workers back within 3 s.
constexpr double kShortestRetry = 0.1;
constexpr double kFirstRetry = 1;
constexpr double kLongestRound = 2.5;
/// A stream that lasts this many times the pause before it makes the next pause short again.
constexpr int kRetryBudget = 10;

}  // namespace

void WorkerMachine::Tick(Time now) {
  if (now - last_look_ >= kLookPeriod) {
    last_look_ = now;
    actions_.push_back(WorkerAction::SnapshotFiles{});
  }
  if (tuning_.Tick(queue_.jobs() > 0, now, *log_)) WakeBuilders();
  TickStreams(now);
  for (auto& [fingerprint, entry] : plans_) {
    if (entry.phase != v1::FAILED || entry.error.code() != StatusCode::kUnavailable) continue;
    if (now < entry.retry_at) continue;
    entry.phase = v1::COMPILING;
    actions_.push_back(WorkerAction::CompilePlan{entry.spec});
  }
  if (!work_.open) {
    if (now >= work_.retry_at) Connect(now);
    return;
  }
  if (now - work_.heard >= kDispatcherSilence) {
    const Status why = Unavailable("silent for 3 s");
    actions_.push_back(WorkerAction::CloseWork{work_.attempt, why});
    return OnWorkClosed(work_.attempt, why, now);
  }
  if (now - work_.reported >= kReportPeriod || measuring_.HasNews()) SendReport(now);
}

void WorkerMachine::Stop(Time now) {
  if (!work_.open || work_.writing) return;
  v1::WorkRequest bye = MakeReport(now);
  bye.set_bye(true);
  actions_.push_back(WorkerAction::SendWork{work_.attempt, std::move(bye), {}});
}

void WorkerMachine::Connect(Time now) {
  ++work_.attempt;
  work_.open = true;
  work_.writing = work_.registered = false;
  work_.heard = work_.opened = now;
  work_.tuning_told = 0;
  measuring_.SendAgain();
  actions_.push_back(WorkerAction::OpenWork{work_.attempt, dispatcher()});
  SendReport(now);
}

void WorkerMachine::OnWorkResponse(std::uint64_t attempt, const v1::WorkResponse& response,
                                   Time now) {
  if (attempt != work_.attempt || !work_.open) return;
  work_.heard = now;
  if (response.term() < term_ && !IsMutant(Mutant::kLowerTermObeyed)) {
    log_->Warning("dispatcher of an older term refused",
                  {{"term", response.term()}, {"seen", term_}});
    const Status why = Cancelled("term " + std::to_string(response.term()) + " is over: seen " +
                                 std::to_string(term_));
    actions_.push_back(WorkerAction::CloseWork{attempt, why});
    return OnWorkClosed(attempt, why, now);
  }
  term_ = response.term();
  if (now - work_.opened >= work_.pause * kRetryBudget) work_.retry_seconds = kFirstRetry;
  if (response.has_id()) {
    id_ = WorkerId(FromProto(response.id()));
    if (!work_.registered) {
      work_.registered = true;
      no_dispatcher_said_.reset();
      log_->Info("joined dispatcher",
                 {{"address", dispatcher()}, {"term", term_}, {"number", id_.ToString()}});
    }
  }
  ObeyDrain(response, now);
  for (const auto& [dataset, file] : response.dataset_differences()) {
    std::string& said = differences_[dataset];
    if (said == file) continue;
    said = file;
    log_->Error("dataset differs from the dispatcher's", {{"dataset", dataset}, {"first", file}});
  }
  file_lists_wanted_.assign(response.list_files().begin(), response.list_files().end());
  // A response without id is only a sign of life and says nothing about plans.
  if (response.has_id()) {
    KeepPlans(response);
    measuring_.Want(response);
    WakeBuilders();
  }
  if (!file_lists_wanted_.empty() || work_.report_due) SendReport(now);
}

void WorkerMachine::ObeyDrain(const v1::WorkResponse& response, Time now) {
  if (!response.drain() && !response.undrain()) return;
  const bool drained = draining();
  drain_ordered_ = response.drain();
  if (draining() == drained) return;
  log_->Info(drained ? "an operator has taken the drain back" : "drained by the dispatcher", {});
  TellDrain(now);
  work_.report_due = true;
}

void WorkerMachine::KeepPlans(const v1::WorkResponse& response) {
  std::set<std::string> wanted;
  for (const v1::PlanSpec& spec : response.plans()) {
    wanted.insert(spec.fingerprint());
    const auto [entry, added] = plans_.try_emplace(spec.fingerprint());
    if (!added && entry->second.spec.asked() == spec.asked()) continue;
    entry->second = {.spec = spec};
    work_.report_due = true;
    if (const KeptPlan* asked = FindAsked(spec.fingerprint())) {
      entry->second.plan = asked->plan;
      entry->second.static_digest = asked->static_digest;
      entry->second.by_row = asked->by_row;
      entry->second.pools = asked->pools;
      entry->second.phase = v1::READY;
    } else {
      actions_.push_back(WorkerAction::CompilePlan{spec});
    }
  }
  // A plan from which a consumer still streams stays, even if the dispatcher has forgotten it.
  std::erase_if(plans_, [&](const auto& plan) {
    if (plan.second.phase == v1::FAILED && IsMutant(Mutant::kFailedPlanKept)) return false;
    const bool gone = !wanted.contains(plan.first) &&
                      std::none_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
                        return stream.second.fingerprint == plan.first;
                      });
    if (gone) build_times_.Forget(plan.first);
    return gone;
  });
}

const WorkerMachine::KeptPlan* WorkerMachine::FindAsked(const std::string& fingerprint) const {
  for (const auto& [name, entry] : plans_) {
    if (entry.plan != nullptr && entry.answer &&
        entry.answer->outline().fingerprint() == fingerprint) {
      return &entry;
    }
  }
  return nullptr;
}

void WorkerMachine::OnWorkWritten(std::uint64_t attempt, Time now) {
  if (attempt != work_.attempt || !work_.open) return;
  work_.writing = false;
  if (work_.report_due) SendReport(now);
}

void WorkerMachine::OnWorkClosed(std::uint64_t attempt, const Status& status, Time now) {
  if (attempt != work_.attempt || !work_.open) return;
  work_.open = work_.writing = false;
  const double longest =
      std::min(work_.retry_seconds, kLongestRound / static_cast<double>(dispatchers_.size()));
  const double seconds = kShortestRetry + random_() * std::max(0.0, longest - kShortestRetry);
  work_.pause = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  work_.retry_at = now + work_.pause;
  // The pause grows only after all dispatchers were tried.
  if (work_.address + 1 == dispatchers_.size()) {
    work_.retry_seconds = std::min(kLongestRound, work_.retry_seconds * 2);
  }
  if (work_.registered) {
    log_->Warning("lost the dispatcher; running streams go on",
                  {{"address", dispatcher()}, {"status", status.ToString()}});
    no_dispatcher_said_ = now;
  } else if (!no_dispatcher_said_ || now - *no_dispatcher_said_ >= kSayAgain) {
    log_->Warning("no dispatcher; it is tried again and again",
                  {{"address", dispatcher()}, {"status", status.ToString()}});
    no_dispatcher_said_ = now;
  }
  work_.registered = false;
  NextDispatcher();
}

void WorkerMachine::OnCpus(int cpus) {
  if (tuning_.SetCpus(cpus, *log_)) WakeBuilders();
}

void WorkerMachine::OnPools(std::vector<PoolUse> pools, std::optional<std::int64_t> room) {
  tuning_.SetPools(std::move(pools), room, *log_);
}

void WorkerMachine::ReportSoon(Time now) { SendReport(now); }

void WorkerMachine::SendReport(Time now) {
  if (!work_.open) return;
  if (work_.writing) {
    work_.report_due = true;
    return;
  }
  work_.report_due = false;
  work_.writing = true;
  work_.reported = now;
  v1::WorkRequest report = MakeReport(now);
  if (work_.tuning_told != tuning_.changes()) {
    tuning_.AddTo(*report.mutable_tuning(), now);
    work_.tuning_told = tuning_.changes();
  }
  measuring_.AddTo(report, now);
  actions_.push_back(WorkerAction::SendWork{work_.attempt, std::move(report),
                                            std::exchange(file_lists_wanted_, {})});
}

v1::WorkRequest WorkerMachine::MakeReport(Time now) const {
  v1::WorkRequest report;
  report.set_protocol(kProtocol);
  if (id_.is_set()) ToProto(id_, report.mutable_id());
  report.set_nonce(nonce_);
  report.set_name(options_.name);
  *report.mutable_self()->mutable_id() = report.id();
  report.mutable_self()->set_address(options_.address);
  report.mutable_self()->set_host_id(options_.host_id);
  report.mutable_self()->set_unix_socket(options_.unix_socket);
  report.add_semantics(kSemantics);
  for (const auto& [fingerprint, entry] : plans_) {
    v1::PlanState& state = *report.add_plans();
    state.set_fingerprint(fingerprint);
    state.set_phase(entry.phase);
    state.set_error(entry.error.message());
    if (entry.phase == v1::FAILED) {
      state.set_error_code(static_cast<std::uint32_t>(entry.error.code()));
    }
    state.set_static_digest(entry.static_digest);
    if (entry.answer) {
      v1::PlanAnswer& answer = *report.add_answers();
      answer = *entry.answer;
      answer.set_question(fingerprint);
    }
  }
  report.set_queue_seconds(static_cast<double>(queue_.pending()) * mean_build_seconds_ /
                           tuning_.threads());
  report.set_memory_bytes(queue_.built_bytes() + queue_.kept_bytes());
  report.set_memory_limit_bytes(queue_.memory_budget());
  report.set_streams(static_cast<std::uint32_t>(streams_.size()));
  report.set_draining(draining());
  for (const auto& [stage, total] : build_seconds_) {
    v1::StageSeconds& seconds = *report.add_build();
    seconds.set_stage(stage);
    seconds.set_seconds(total.seconds);
    seconds.set_count(total.count);
  }
  report.set_send_blocked_seconds(SendBlockedSeconds(now));
  report.set_threads(static_cast<std::uint32_t>(tuning_.most_threads()));
  report.set_version(options_.version);
  report.set_highest_term(term_);
  report.set_sent_batches(sent_batches_);
  report.set_sent_bytes(sent_bytes_);
  report.set_shared_batches(shared_batches_);
  report.set_measuring(kMeasuringVersion);
  report.set_slots(draining() ? 0 : SlotsOfWorker(CapacityFor(build_times_.all())));
  report.set_idle_threads(idle_threads_.Count(now));
  std::uint64_t owed = 0;
  for (const auto& [id, stream] : streams_) {
    owed += queue_.Owed(id) + (stream.writing == Writing::kBatch ? 1 : 0);
  }
  report.set_owed(static_cast<std::uint32_t>(owed));
  return report;
}

}  // namespace millrace
