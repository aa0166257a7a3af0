#include "server/worker/machine/worker_machine.h"

#include <algorithm>
#include <utility>

#include "common/access/rights.h"
#include "common/base/addresses.h"
#include "common/base/mutant.h"
#include "common/base/protocol_limits.h"
#include "common/base/protocol_version.h"
#include "common/base/wait_cause.h"
#include "common/transport/convert/compression.h"
#include "common/transport/convert/places.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxControlParts = 1024;

/// Checks the fields of a want list that BuildQueue does not check.
Status CheckWants(const v1::WantList& wants) {
  MILLRACE_RETURN_IF_ERROR(CheckProtocol("consumer", wants.protocol() == 0 ? 1 : wants.protocol()));
  if (wants.fingerprint().empty()) {
    return InvalidArgument("a want list without a fingerprint: expected that of the plan");
  }
  if (wants.fingerprint().size() > kMaxNameBytes || wants.job().size() > kMaxNameBytes) {
    return InvalidArgument("a want list with a fingerprint of " +
                           std::to_string(wants.fingerprint().size()) + " and a job of " +
                           std::to_string(wants.job().size()) + " bytes: expected at most " +
                           std::to_string(kMaxNameBytes));
  }
  if (wants.priority() > kMaxPriority) {
    return InvalidArgument("priority " + std::to_string(wants.priority()) +
                           " is out of range: expected 1 to " + std::to_string(kMaxPriority));
  }
  return OkStatus();
}

}  // namespace

WorkerMachine::WorkerMachine(WorkerOptions options, std::string nonce,
                             std::function<double()> random, std::shared_ptr<Logger> log)
    : options_(std::move(options)),
      nonce_(std::move(nonce)),
      dispatchers_(SplitAddresses(options_.dispatcher)),
      random_(std::move(random)),
      log_(std::move(log)),
      queue_(options_.memory_bytes),
      tuning_({.threads = options_.threads,
               .tune = options_.tune,
               .threads_given = options_.threads_given}) {}

std::vector<WorkerAction::Any> WorkerMachine::TakeActions() { return std::exchange(actions_, {}); }

void WorkerMachine::Start(Time now) {
  last_look_ = last_tick_ = now;
  tuning_.Start(now);
  Connect(now);
}

void WorkerMachine::Drain(Time now) {
  if (draining_) return;
  draining_ = true;
  log_->Info("draining", {{"streams", streams_.size()}});
  PumpAll(now);
  SendReport(now);
}

bool WorkerMachine::Idle() const {
  return std::all_of(streams_.begin(), streams_.end(), [this](const auto& stream) {
    return !queue_.Owes(stream.first) && stream.second.writing != Writing::kBatch;
  });
}

Number WorkerMachine::SessionOf(StreamId stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? Number{} : found->second.session;
}

const WorkerMachine::KeptPlan* WorkerMachine::FindReady(const std::string& fingerprint) const {
  const auto found = plans_.find(fingerprint);
  if (found == plans_.end() || found->second.phase != v1::READY) return nullptr;
  return found->second.spec.asked() ? nullptr : &found->second;
}

// --- Streams of consumers ------------------------------------------------------------------------

Status WorkerMachine::OnStreamOpened(StreamId stream, const Peer& peer) {
  if (streams_.size() >= options_.max_streams) {
    return ResourceExhausted("worker " + options_.name + " has " +
                             std::to_string(options_.max_streams) +
                             " streams, its limit: consumers go to other workers");
  }
  streams_[stream].peer = peer;
  return OkStatus();
}

void WorkerMachine::OnWants(StreamId id, const v1::WantList& wants, Time now) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  StreamEntry& stream = found->second;
  stream.wants_heard = now;
  stream.deaf_said = false;
  if (const Status status = CheckWants(wants); !status.ok()) return Close(id, status);
  stream.session = FromProto(wants.session());
  // A consumer may know more of them than this worker. Nothing is saved in shared memory.
  stream.compression = stream.peer.shares_memory
                           ? Compression::kOff
                           : FromProto(wants.compression()).value_or(Compression::kOff);
  if (stream.fingerprint.empty()) {
    stream.fingerprint = wants.fingerprint();
    const std::string& job = wants.job().empty() ? wants.fingerprint() : wants.job();
    queue_.AddStream(id, stream.fingerprint, job, {wants.world_size(), wants.rank()});
    queue_.SetWeight(job, std::max(1u, wants.priority()));
  }
  if (stream.fingerprint != wants.fingerprint()) {
    return Close(id, InvalidArgument("a stream of fingerprint " + stream.fingerprint +
                                     " asks for batches of " + wants.fingerprint()));
  }
  if (FindReady(wants.fingerprint()) == nullptr) {
    const Status why = WhyNotReady(wants.fingerprint());
    for (const v1::Want& want : wants.wants()) Refuse(stream, FromProto(want.lease()), why);
    // The list replaces the one before, also where the plan was ready for that one.
    v1::WantList nothing = wants;
    nothing.clear_wants();
    if (const Status status = queue_.SetWants(id, nothing); !status.ok()) return Close(id, status);
  } else if (const Status denied = CheckDatasets(wants.fingerprint(), stream.peer.identity);
             !denied.ok()) {
    return Close(id, denied);
  } else if (const Status status = queue_.SetWants(id, wants); !status.ok()) {
    return Close(id, status);
  }
  PumpReady(now);
  Pump(id, stream, now);
  WakeBuilders();
}

Status WorkerMachine::CheckDatasets(const std::string& fingerprint, const Identity& peer) const {
  for (const std::string& dataset : plans_.at(fingerprint).spec.datasets()) {
    MILLRACE_RETURN_IF_ERROR(CheckDataset(peer, dataset));
  }
  return OkStatus();
}

Status WorkerMachine::WhyNotReady(const std::string& fingerprint) const {
  const auto plan = plans_.find(fingerprint);
  if (plan == plans_.end() || plan->second.phase != v1::FAILED) {
    return Unavailable("plan " + fingerprint + " is " +
                       (plan == plans_.end() ? "not known" : "still being compiled") +
                       " at worker " + options_.name);
  }
  // Damaged files stay damaged, and the consumer has to know that. All other reasons lie in how
  // this host is set up.
  if (plan->second.error.code() == StatusCode::kDataLoss) return plan->second.error;
  return FailedPrecondition("plan failed here: " + plan->second.error.message());
}

void WorkerMachine::Refuse(StreamEntry& stream, const Number& lease, const Status& why,
                           std::optional<Position> at) {
  // This check comes before the search, because a want list may name a hundred thousand leases.
  if (stream.control.size() >= kMaxControlParts) return;
  const bool said = std::any_of(stream.control.begin(), stream.control.end(), [&](const auto& p) {
    return p.has_refused() && FromProto(p.refused().lease()) == lease;
  });
  if (said) return;
  v1::BatchPart part;
  v1::Refused& refused = *part.mutable_refused();
  ToProto(lease, refused.mutable_lease());
  refused.set_code(static_cast<std::uint32_t>(why.code()));
  refused.set_message(why.message());
  if (at) ToProto(*at, refused.mutable_at());
  stream.control.push_back(std::move(part));
}

void WorkerMachine::Close(StreamId id, const Status& why) {
  log_->Warning("consumer's stream closed",
                {{"peer", streams_.at(id).peer.address}, {"error", why}});
  actions_.push_back(WorkerAction::CloseStream{id, why});
  streams_.erase(id);
  queue_.RemoveStream(id);
  WakeBuilders();
}

void WorkerMachine::WakeBuilders() {
  if (queue_.pending() == 0 && measuring_.pending() == 0) return;
  actions_.push_back(WorkerAction::WakeBuilders{});
}

void WorkerMachine::PumpAll(Time now) {
  for (auto& [id, stream] : streams_) Pump(id, stream, now);
}

void WorkerMachine::PumpReady(Time now) {
  for (const StreamId id : queue_.TakeReady()) {
    if (const auto stream = streams_.find(id); stream != streams_.end()) {
      Pump(id, stream->second, now);
    }
  }
}

void WorkerMachine::Pump(StreamId id, StreamEntry& stream, Time now) {
  if (stream.writing != Writing::kNothing) return;
  if (draining_ && !stream.going_away_said) {
    stream.going_away_said = true;
    v1::BatchPart part;
    part.set_going_away(true);
    return Write(id, stream, std::move(part));
  }
  if (!stream.control.empty()) {
    v1::BatchPart part = std::move(stream.control.front());
    stream.control.pop_front();
    return Write(id, stream, std::move(part));
  }
  if (auto outgoing = queue_.TakeToSend(id)) {
    if (stream.blocked_since) send_blocked_seconds_ += ToSeconds(now - *stream.blocked_since);
    stream.blocked_since.reset();
    ++sent_batches_;
    sent_bytes_ += outgoing->bytes;
    if (outgoing->shared) ++shared_batches_;
    stream.writing = Writing::kBatch;
    actions_.push_back(WorkerAction::SendBatch{id, *std::move(outgoing), stream.compression});
    // The sent batch has left memory, so that another may be built.
    return WakeBuilders();
  }
  if (!queue_.BlockedByCredit(id)) {
    stream.blocked_since.reset();
  } else if (!stream.blocked_since) {
    stream.blocked_since = now;
  }
}

void WorkerMachine::Write(StreamId id, StreamEntry& stream, v1::BatchPart part,
                          std::uint64_t build) {
  stream.writing = Writing::kPart;
  actions_.push_back(WorkerAction::SendPart{id, std::move(part), build});
}

void WorkerMachine::SendAlive(StreamId id, StreamEntry& stream, Time now) {
  if (stream.writing != Writing::kNothing) return;
  v1::BatchPart part;
  part.set_batches_sent(queue_.BatchesSent(id));
  v1::Alive& alive = *part.mutable_alive();
  const std::optional<BuildUnderWay> building = queue_.Building(id);
  if (building) ToProto(building->at, alive.mutable_building());
  alive.set_batches_before(static_cast<std::uint32_t>(queue_.pending()));
  const Duration age = now - stream.wants_heard;
  stream.deaf_said = age >= kWantsSilence;
  alive.set_wants_age_ms(static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(age).count()));
  Write(id, stream, std::move(part), building ? building->build : 0);
}

void WorkerMachine::OnSent(StreamId id, Time now) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second.writing = Writing::kNothing;
  found->second.last_write = now;
  Pump(id, found->second, now);
}

void WorkerMachine::OnStreamClosed(StreamId id, const Status& status, Time /*now*/) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  log_->Debug("consumer's stream ended",
              {{"peer", found->second.peer.address}, {"status", status.ToString()}});
  streams_.erase(found);
  queue_.RemoveStream(id);
  WakeBuilders();
}

bool WorkerMachine::SetMemoryBudget(std::uint64_t bytes) {
  const bool forgets = queue_.built_bytes() + queue_.kept_bytes() > bytes;
  queue_.SetMemoryBudget(bytes);
  if (!forgets) WakeBuilders();
  return forgets;
}

double WorkerMachine::SendBlockedSeconds(Time now) const {
  double blocked = send_blocked_seconds_;
  for (const auto& [id, stream] : streams_) {
    if (stream.blocked_since) blocked += ToSeconds(now - *stream.blocked_since);
  }
  return blocked;
}

// --- Plans and builds ----------------------------------------------------------------------------

void WorkerMachine::OnPlan(const std::string& fingerprint, Result<ReadyPlan> plan, Time now) {
  const auto found = plans_.find(fingerprint);
  if (found == plans_.end()) return;
  KeptPlan& entry = found->second;
  // A lease of a plan is for this plan alone: other bytes may never be sent for it.
  if (plan.ok() && !entry.spec.asked() && plan->fingerprint != fingerprint &&
      !IsMutant(Mutant::kOtherCodeServed)) {
    plan = FailedPrecondition("compiles to " + plan->fingerprint + " here, expected " +
                              fingerprint + ": " + plan->difference);
  }
  if (plan.ok()) {
    entry.plan = std::move(plan->plan);
    entry.static_digest = std::move(plan->static_digest);
    entry.answer = std::move(plan->answer);
    entry.phase = v1::READY;
    log_->Info("plan ready", {{"plan", fingerprint}});
  } else if (entry.phase == v1::READY) {
    // Only DataLoss ends a ready plan. Other errors answer requests from before it was ready.
    if (plan.status().code() == StatusCode::kDataLoss && !IsMutant(Mutant::kDamageIgnored)) {
      FailPlan(fingerprint, entry, plan.status(), now);
    }
  } else {
    // The same error may come every two seconds, for as long as a dispatcher is away.
    if (entry.error != plan.status()) {
      log_->Error("plan failed", {{"plan", fingerprint}, {"error", plan.status()}});
    }
    entry.phase = v1::FAILED;
    entry.error = plan.status();
    entry.retry_at = now + kCompileAgain;
  }
  SendReport(now);
}

void WorkerMachine::OnDatasetsChanged(Time now) {
  for (auto& [fingerprint, entry] : plans_) {
    if (entry.phase != v1::FAILED || IsMutant(Mutant::kFailedPlanKept)) continue;
    entry.phase = v1::COMPILING;
    entry.error = OkStatus();
    actions_.push_back(WorkerAction::CompilePlan{entry.spec});
  }
  SendReport(now);
}

void WorkerMachine::OnMeasured(const MeasureJob& job,
                               Result<std::vector<v1::MeasuredColumn>> columns, Time now) {
  measuring_.OnMeasured(job, std::move(columns));
  // Otherwise the next tick sends it, together with more.
  if (measuring_.pending() == 0 && measuring_.HasNews()) SendReport(now);
}

void WorkerMachine::FailPlan(const std::string& fingerprint, KeptPlan& entry, const Status& why,
                             Time now) {
  log_->Error("plan cannot be served any more", {{"plan", fingerprint}, {"error", why}});
  entry.phase = v1::FAILED;
  entry.error = why;
  entry.plan.reset();
  for (const auto& [id, lease] : queue_.GiveUpPlan(fingerprint)) {
    Refuse(streams_.at(id), lease, why);
  }
  std::vector<StreamId> half_way;
  for (auto& [id, stream] : streams_) {
    if (stream.fingerprint != fingerprint) continue;
    if (stream.writing == Writing::kBatch) {
      half_way.push_back(id);  // the parts that were sent may have been read from damaged bytes
    } else {
      Pump(id, stream, now);
    }
  }
  for (const StreamId id : half_way) Close(id, why);
}

WorkerMachine::StageTotal& WorkerMachine::TotalOf(std::string_view stage) {
  if (const auto known = build_seconds_.find(stage); known != build_seconds_.end()) {
    return known->second;
  }
  const bool room = build_seconds_.size() + 1 < kMaxStages;
  return build_seconds_[std::string(room ? stage : kOtherStages)];
}

std::optional<BuildQueue::Task> WorkerMachine::NextBuild(Time now) {
  std::optional<BuildQueue::Task> task = queue_.Next();
  tuning_.OnAsked(task.has_value(), queue_.anyone_waits(), now);
  PumpReady(now);
  return task;
}

void WorkerMachine::OnBuilt(const BuildQueue::Task& task, std::shared_ptr<const BuiltBatch> batch,
                            std::uint64_t bytes, double seconds,
                            const std::vector<StageTook>& stages, Time now) {
  for (const StageTook& stage : stages) {
    StageTotal& total = TotalOf(stage.stage);
    total.seconds += stage.seconds;
    total.batches.Observe(stage.seconds);
    ++total.count;
  }
  mean_build_seconds_ =
      mean_build_seconds_ == 0 ? seconds : 0.95 * mean_build_seconds_ + 0.05 * seconds;
  double python_seconds = 0;
  for (const StageTook& stage : stages) {
    if (IsPythonStage(stage.stage)) python_seconds += stage.seconds;
  }
  tuning_.OnEnded(2 * python_seconds > seconds, now);
  queue_.Built(task, std::move(batch), bytes, seconds);
  PumpReady(now);
}

void WorkerMachine::OnBuildFailed(const BuildQueue::Task& task, const Status& why, Time now) {
  log_->Error("batch cannot be built", {{"plan", task.plan}, {"error", why}});
  tuning_.OnEnded(false, now);
  // The files are looked at now, not at the next period: other batches would fail as well.
  if (why.code() == StatusCode::kDataLoss) actions_.push_back(WorkerAction::LookAtFiles{});
  for (const auto& [of, at] : queue_.GiveUp(task)) {
    StreamEntry& stream = streams_.at(of.stream);
    Refuse(stream, of.lease, why, at);
    Pump(of.stream, stream, now);
  }
}

}  // namespace millrace
