// The worker's threads and its streams to consumers. worker_report.cc has its stream to the
// dispatcher.

#include "server/worker/worker_service.h"

#include <algorithm>
#include <utility>

#include "common/base/addresses.h"
#include "common/base/nonce.h"
#include "server/worker/builder.h"

namespace millrace {
namespace {

constexpr Duration kAlivePeriod = std::chrono::seconds(1);
constexpr std::size_t kMaxControlParts = 1024;
constexpr Duration kLookPeriod = std::chrono::seconds(1);

Number FromProto(const v1::Number& n) { return {n.term(), n.n()}; }

}  // namespace

/// One consumer's stream, as the network sees it.
class WorkerService::BatchHandler final : public StreamHandler<v1::WantList> {
 public:
  BatchHandler(std::shared_ptr<WorkerService> worker, std::uint64_t id)
      : worker_(std::move(worker)), id_(id) {}
  void OnMessage(v1::WantList wants) override { worker_->OnWants(id_, wants); }
  void OnWriteDone() override { worker_->OnBatchWriteDone(id_); }
  void OnClosed(const Status& status) override { worker_->OnBatchStreamClosed(id_, status); }

 private:
  const std::shared_ptr<WorkerService> worker_;
  const std::uint64_t id_;
};

WorkerService::WorkerService(WorkerOptions options, std::shared_ptr<PlanProvider> plans,
                             std::shared_ptr<Connector> connector,
                             std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> log)
    : options_(std::move(options)),
      provider_(std::move(plans)),
      connector_(std::move(connector)),
      clock_(std::move(clock)),
      log_(std::move(log)),
      nonce_(MakeNonce()),
      dispatchers_(SplitAddresses(options_.dispatcher)),
      trace_(clock_, options_.name, options_.host_id),
      queue_(options_.memory_bytes),
      random_(std::random_device()()) {}

WorkerService::~WorkerService() { Stop(); }

void WorkerService::Start() {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { BuildLoop(); });
  threads_.emplace_back([this] { OpenDatasets(); });
  threads_.emplace_back([this] { PrepareLoop(); });
  threads_.emplace_back([this] { WatchLoop(); });
  MutexLock lock(mutex_);
  last_look_ = clock_->Now();
  ConnectToDispatcher();
}

void WorkerService::Stop() {
  std::map<std::uint64_t, StreamEntry> streams;  // dropped outside the lock
  std::shared_ptr<Stream<v1::WorkRequest>> work;
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    if (work_ && !work_writing_) {
      v1::WorkRequest bye = MakeReport();
      bye.set_bye(true);
      work_->Write(std::move(bye));
    }
    work = std::move(work_);
    streams = std::move(streams_);
    streams_.clear();
  }
  work_available_.NotifyAll();
  prepare_available_.NotifyAll();
  look_due_changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (auto& [id, stream] : streams) stream.out->Close(Unavailable("the worker stops"));
  streams.clear();
  if (work) work->Close(OkStatus());
  work.reset();
  connector_->WaitForStreams(Connector::kStreamsEndSeconds);
}

void WorkerService::Drain() {
  MutexLock lock(mutex_);
  if (draining_) return;
  draining_ = true;
  log_->Info("draining", {{"streams", streams_.size()}});
  for (auto& [id, stream] : streams_) Pump(id, stream);
  SendReport();
}

bool WorkerService::Idle() {
  MutexLock lock(mutex_);
  return std::all_of(streams_.begin(), streams_.end(),
                     [this](const auto& s) MILLRACE_REQUIRES(mutex_) {
                       return !queue_.Owes(s.first) && !s.second.out->sending();
                     });
}

void WorkerService::Tick() {
  MutexLock lock(mutex_);
  if (stopping_) return;
  const Time now = clock_->Now();
  if (now - last_look_ >= kLookPeriod) {
    last_look_ = now;
    look_due_ = true;
    look_due_changed_.NotifyAll();
  }
  for (auto& [id, stream] : streams_) {
    if (!queue_.Owes(id)) continue;
    if (now - stream.out->last_write() >= kAlivePeriod) SendAlive(id, stream);
  }
  if (!work_) {
    if (now >= retry_at_) ConnectToDispatcher();
    return;
  }
  if (now - last_heard_ >= std::chrono::seconds(10)) {
    log_->Warning("dispatcher is silent",
                  {{"address", dispatchers_[dispatcher_]}, {"seconds", 10}});
    ++attempt_;  // what still comes of the old stream is not listened to
    dispatcher_ = (dispatcher_ + 1) % dispatchers_.size();
    const auto old = std::exchange(work_, nullptr);
    work_writing_ = false;
    retry_at_ = now;
    old->Close(Cancelled("silent for 10 s"));
    return;
  }
  if (now - last_report_ >= std::chrono::seconds(1)) SendReport();
}

// --- Streams of consumers ------------------------------------------------------------------------

std::shared_ptr<StreamHandler<v1::WantList>> WorkerService::OnStreamBatches(
    std::shared_ptr<Stream<OutgoingPart>> stream, const std::string& peer) {
  MutexLock lock(mutex_);
  if (stopping_) return nullptr;
  const std::uint64_t id = next_stream_++;
  streams_[id].out = std::make_unique<BatchStream>(std::move(stream), peer);
  return std::make_shared<BatchHandler>(shared_from_this(), id);
}

void WorkerService::OnWants(std::uint64_t id, const v1::WantList& wants) {
  MutexLock lock(mutex_);
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  StreamEntry& stream = found->second;
  stream.session = FromProto(wants.session());
  if (stream.fingerprint.empty()) {
    stream.fingerprint = wants.fingerprint();
    queue_.AddStream(id, stream.fingerprint);
  }
  Status status;
  if (stream.fingerprint != wants.fingerprint()) {
    status = InvalidArgument("a stream of fingerprint " + stream.fingerprint +
                             " asks for batches of " + wants.fingerprint());
  } else if (const auto plan = plans_.find(wants.fingerprint());
             plan == plans_.end() || plan->second.phase != v1::READY) {
    RefuseAll(stream, wants, WhyNotReady(wants.fingerprint()));
    Pump(id, stream);
    return;
  } else {
    status = queue_.SetWants(id, wants);
  }
  if (!status.ok()) {
    log_->Warning("bad want list", {{"peer", stream.out->peer()}, {"error", status}});
    stream.out->Close(status);
    return;
  }
  Pump(id, stream);
  if (queue_.pending() > 0) work_available_.NotifyAll();
}

Status WorkerService::WhyNotReady(const std::string& fingerprint) const {
  const auto plan = plans_.find(fingerprint);
  if (plan == plans_.end() || plan->second.phase != v1::FAILED) {
    return Unavailable("plan " + fingerprint + " is not ready at worker " + options_.name);
  }
  // Damage is for good; what else a plan fails of is this host's set-up.
  if (plan->second.error.code() == StatusCode::kDataLoss) return plan->second.error;
  return FailedPrecondition("plan failed here: " + plan->second.error.message());
}

void WorkerService::RefuseAll(StreamEntry& stream, const v1::WantList& wants, const Status& why) {
  for (const v1::Want& want : wants.wants()) Refuse(stream, FromProto(want.lease()), why);
}

void WorkerService::Refuse(StreamEntry& stream, const Number& lease, const Status& why) {
  const bool said = std::any_of(stream.control.begin(), stream.control.end(), [&](const auto& p) {
    return p.has_refused() && FromProto(p.refused().lease()) == lease;
  });
  if (said || stream.control.size() >= kMaxControlParts) return;
  v1::BatchPart part;
  v1::Refused& refused = *part.mutable_refused();
  refused.mutable_lease()->set_term(lease.term);
  refused.mutable_lease()->set_n(lease.n);
  refused.set_code(static_cast<std::uint32_t>(why.code()));
  refused.set_message(why.message());
  stream.control.push_back(std::move(part));
}

void WorkerService::Pump(std::uint64_t id, StreamEntry& stream) {
  if (!stream.out->idle()) return;
  if (stream.out->sending()) {
    stream.out->WriteNext();
    return;
  }
  if (draining_ && !stream.going_away_said) {
    stream.going_away_said = true;
    v1::BatchPart part;
    part.set_going_away(true);
    stream.out->WriteControl(std::move(part));
    return;
  }
  if (!stream.control.empty()) {
    v1::BatchPart part = std::move(stream.control.front());
    stream.control.pop_front();
    stream.out->WriteControl(std::move(part));
    return;
  }
  const Time now = clock_->Now();
  if (auto outgoing = queue_.TakeToSend(id)) {
    if (stream.blocked_since) send_blocked_seconds_ += ToSeconds(now - *stream.blocked_since);
    stream.blocked_since.reset();
    ++sent_batches_;
    sent_bytes_ += outgoing->bytes;
    if (trace_.tracer().on()) BeginSend(id, stream, *outgoing);
    stream.out->Send(*std::move(outgoing));
    // What was sent is no longer in the way of what may be built.
    if (queue_.pending() > 0) work_available_.NotifyOne();
    return;
  }
  if (!queue_.BlockedByCredit(id)) {
    stream.blocked_since.reset();
  } else if (!stream.blocked_since) {
    stream.blocked_since = now;
  }
}

void WorkerService::SendAlive(std::uint64_t id, StreamEntry& stream) {
  if (!stream.out->idle() || stream.out->sending()) return;
  v1::BatchPart part;
  v1::Alive& alive = *part.mutable_alive();
  if (const std::optional<Position> building = queue_.Building(id)) {
    alive.mutable_building()->set_epoch(building->epoch);
    alive.mutable_building()->set_example(building->example);
    alive.set_stage("build");
  }
  alive.set_batches_before(static_cast<std::uint32_t>(queue_.pending()));
  stream.out->WriteControl(std::move(part));
}

void WorkerService::OnBatchWriteDone(std::uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second.out->OnWriteDone(clock_->Now());
  if (trace_.tracer().on()) EndSend(found->second);
  Pump(id, found->second);
}

void WorkerService::OnBatchStreamClosed(std::uint64_t id, const Status& status) {
  StreamEntry gone;  // dropped outside the lock
  MutexLock lock(mutex_);
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  log_->Debug("consumer's stream ended",
              {{"peer", found->second.out->peer()}, {"status", status.ToString()}});
  gone = std::move(found->second);
  streams_.erase(found);
  queue_.RemoveStream(id);
  if (queue_.pending() > 0) work_available_.NotifyAll();
  lock.Unlock();
}

Result<StaticBytes> WorkerService::OnGetStatic(const std::string& fingerprint) {
  std::shared_ptr<const Plan> plan;
  {
    MutexLock lock(mutex_);
    const auto found = plans_.find(fingerprint);
    if (found == plans_.end() || found->second.phase != v1::READY) {
      return NotFound("plan " + fingerprint + " is not ready at worker " + options_.name);
    }
    plan = found->second.plan;
  }
  // Outside the lock: the bytes are made now.
  return StaticBytes{plan->static_digest(), plan->static_bytes()};
}

// --- Threads -------------------------------------------------------------------------------------

void WorkerService::BuildLoop() {
  ScratchByPlan scratch;
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (std::optional<BuildQueue::Task> task = queue_.Next()) {
      BuildOne(*task, scratch);
    } else {
      work_available_.Wait(mutex_);
    }
  }
}

void WorkerService::BuildOne(const BuildQueue::Task& task, ScratchByPlan& scratch) {
  Result<std::shared_ptr<const BuiltBatch>> built = Unavailable("plan is gone");
  Time began = clock_->Now();
  Time ended = began;
  if (const auto found = plans_.find(task.job); found != plans_.end() && found->second.plan) {
    const std::shared_ptr<const Plan> plan = found->second.plan;
    std::erase_if(scratch, [this](const auto& s)
                               MILLRACE_REQUIRES(mutex_) { return !plans_.contains(s.first); });
    PlanScratch& of_plan = scratch[task.job];
    mutex_.unlock();
    if (of_plan.plan.lock() != plan) of_plan = {plan, plan->NewScratch()};
    const std::unique_ptr<BatchScratch>& own = of_plan.scratch;
    const std::vector<BatchScratch::StageTime> before = own->stage_times();
    built = BuildBatch(task, *plan, *own);
    ended = clock_->Now();
    const std::vector<BatchScratch::StageTime> after = own->stage_times();
    mutex_.lock();
    for (std::size_t i = 0; i < after.size(); ++i) {
      StageTotal& total = build_seconds_[after[i].stage];
      total.seconds += after[i].seconds - (i < before.size() ? before[i].seconds : 0);
      ++total.count;
    }
    if (trace_.tracer().on()) RecordBuild(task, began, ended, before, after);
  }
  const double seconds = ToSeconds(ended - began);
  mean_build_seconds_ =
      mean_build_seconds_ == 0 ? seconds : 0.95 * mean_build_seconds_ + 0.05 * seconds;

  const auto stream = streams_.find(task.stream);
  if (!built.ok()) {
    log_->Error("batch cannot be built", {{"plan", task.job}, {"error", built.status()}});
    if (built.status().code() == StatusCode::kDataLoss) {
      look_due_ = true;  // now: other batches would fail as well
      look_due_changed_.NotifyAll();
    }
    queue_.GiveUp(task);
    if (stream != streams_.end()) Refuse(stream->second, task.lease, built.status());
  } else {
    const std::uint64_t bytes = (*built)->batch->bytes().size();
    queue_.Built(task, std::move(built).value(), bytes, seconds);
  }
  if (stream != streams_.end()) Pump(task.stream, stream->second);
}

void WorkerService::OpenDatasets() {
  provider_->OpenDatasets([this] {
    MutexLock lock(mutex_);
    SendReport();
    prepare_available_.NotifyAll();
  });
}

void WorkerService::PrepareLoop() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    std::erase_if(to_compile_, [this](const std::string& f)
                                   MILLRACE_REQUIRES(mutex_) { return !plans_.contains(f); });
    // A dataset that is still being opened keeps only its own plans waiting.
    const auto next = std::find_if(to_compile_.begin(), to_compile_.end(),
                                   [this](const std::string& f) MILLRACE_REQUIRES(mutex_) {
                                     return provider_->CanCompile(plans_.at(f).spec);
                                   });
    if (next == to_compile_.end()) {
      prepare_available_.Wait(mutex_);
      continue;
    }
    const std::string fingerprint = *next;
    to_compile_.erase(next);
    const auto found = plans_.find(fingerprint);
    const v1::PlanSpec spec = found->second.spec;
    lock.Unlock();
    Result<std::shared_ptr<const Plan>> plan = provider_->CompilePlan(spec.pipeline());
    if (plan.ok() && (*plan)->fingerprint().ToString() != fingerprint) {
      plan = FailedPrecondition("compiles to " + (*plan)->fingerprint().ToString() +
                                " here, expected " + fingerprint +
                                ": this host's dataset or program differs");
    }
    lock.Lock();
    const auto entry = plans_.find(fingerprint);
    if (entry == plans_.end()) continue;
    if (plan.ok()) {
      entry->second.plan = std::move(plan).value();
      entry->second.phase = v1::READY;
      log_->Info("plan ready", {{"plan", fingerprint}});
    } else {
      entry->second.phase = v1::FAILED;
      entry->second.error = plan.status();
      log_->Error("plan failed", {{"plan", fingerprint}, {"error", plan.status()}});
    }
    SendReport();
  }
}

// A thread of its own, since a file system may take its time, and so may the index of another
// dataset.
void WorkerService::WatchLoop() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (!look_due_) {
      look_due_changed_.Wait(mutex_);
      continue;
    }
    look_due_ = false;
    lock.Unlock();
    const bool damage = provider_->CheckFiles();
    lock.Lock();
    if (damage) CheckPlans();
  }
}

void WorkerService::CheckPlans() {
  std::map<std::string, v1::PipelineText> ready;
  for (const auto& [fingerprint, entry] : plans_) {
    if (entry.phase == v1::READY) ready[fingerprint] = entry.spec.pipeline();
  }
  for (const auto& [fingerprint, pipeline] : ready) {
    mutex_.unlock();
    const Status status = provider_->CompilePlan(pipeline).status();
    mutex_.lock();
    if (status.code() == StatusCode::kDataLoss) FailPlan(fingerprint, status);
  }
  SendReport();
}

void WorkerService::FailPlan(const std::string& fingerprint, const Status& why) {
  const auto found = plans_.find(fingerprint);
  if (found == plans_.end() || found->second.phase != v1::READY) return;
  log_->Error("plan cannot be served any more", {{"plan", fingerprint}, {"error", why}});
  found->second.phase = v1::FAILED;
  found->second.error = why;
  found->second.plan.reset();
  for (auto& [id, stream] : streams_) {
    if (stream.fingerprint != fingerprint) continue;
    for (const Number& lease : queue_.GiveUpAll(id)) Refuse(stream, lease, why);
    if (stream.out->sending()) {
      stream.out->Close(why);  // half a batch is out: it may hold what was read of the damage
    } else {
      Pump(id, stream);
    }
  }
}

}  // namespace millrace
