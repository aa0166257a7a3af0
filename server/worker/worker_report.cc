// The worker's stream to the dispatcher: its whole truth once a second, and the plans it shall
// keep.

#include <algorithm>
#include <utility>

#include "server/pipeline/pipeline.h"
#include "server/worker/worker_service.h"

namespace millrace {
namespace {

constexpr Duration kSayAgain = std::chrono::minutes(1);

}  // namespace

class WorkerService::WorkHandler final : public StreamHandler<v1::WorkResponse> {
 public:
  WorkHandler(std::weak_ptr<WorkerService> worker, std::uint64_t attempt)
      : worker_(std::move(worker)), attempt_(attempt) {}
  void OnMessage(v1::WorkResponse response) override {
    if (auto worker = worker_.lock()) worker->OnWorkResponse(attempt_, response);
  }
  void OnWriteDone() override {
    if (auto worker = worker_.lock()) worker->OnWorkWriteDone(attempt_);
  }
  void OnClosed(const Status& status) override {
    if (auto worker = worker_.lock()) worker->OnWorkClosed(attempt_, status);
  }

 private:
  const std::weak_ptr<WorkerService> worker_;
  const std::uint64_t attempt_;
};

void WorkerService::ConnectToDispatcher() {
  ++attempt_;
  registered_ = false;
  last_heard_ = clock_->Now();
  work_ = connector_->Work(dispatchers_[dispatcher_],
                           std::make_shared<WorkHandler>(weak_from_this(), attempt_));
  work_writing_ = false;
  SendReport();
}

void WorkerService::OnWorkResponse(std::uint64_t attempt, const v1::WorkResponse& response) {
  MutexLock lock(mutex_);
  if (attempt != attempt_ || stopping_ || !work_) return;
  last_heard_ = clock_->Now();
  if (response.term() < term_) {
    log_->Warning("dispatcher of an older term refused",
                  {{"term", response.term()}, {"seen", term_}});
    work_->Close(Cancelled("term " + std::to_string(response.term()) + " is over: seen " +
                           std::to_string(term_)));
    return;
  }
  term_ = response.term();
  retry_seconds_ = 0.1;
  if (response.has_id()) {
    number_ = {response.id().term(), response.id().n()};
    if (!registered_) {
      registered_ = true;
      no_dispatcher_said_.reset();
      log_->Info("joined dispatcher", {{"address", dispatchers_[dispatcher_]},
                                       {"term", term_},
                                       {"number", number_.ToString()}});
    }
  }
  if (response.drain() && !draining_) {
    draining_ = true;
    log_->Info("drained by the dispatcher", {});
    for (auto& [id, stream] : streams_) Pump(id, stream);
    report_due_ = true;
  }
  for (const auto& [dataset, file] : response.dataset_differences()) {
    std::string& said = differences_[dataset];
    if (said == file) continue;
    said = file;
    log_->Error("dataset differs from the dispatcher's", {{"dataset", dataset}, {"first", file}});
  }
  if (trace_.Obey(response)) report_due_ = true;
  file_lists_wanted_.assign(response.list_files().begin(), response.list_files().end());
  // A pulse without id tells nothing about plans.
  if (response.has_id()) KeepPlans(response);
  if (!file_lists_wanted_.empty() || report_due_) SendReport();
}

void WorkerService::KeepPlans(const v1::WorkResponse& response) {
  std::map<std::string, const v1::PlanSpec*> wanted;
  for (const v1::PlanSpec& spec : response.plans()) wanted[spec.fingerprint()] = &spec;
  for (const auto& [fingerprint, spec] : wanted) {
    auto [entry, added] = plans_.try_emplace(fingerprint);
    if (!added) continue;
    entry->second.spec = *spec;
    to_compile_.push_back(fingerprint);
    prepare_available_.NotifyAll();
    report_due_ = true;
  }
  // Plans that a consumer still streams from stay, whatever the dispatcher has forgotten.
  std::erase_if(plans_, [&](const auto& plan) MILLRACE_REQUIRES(mutex_) {
    return !wanted.contains(plan.first) &&
           std::none_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
             return stream.second.fingerprint == plan.first;
           });
  });
}

void WorkerService::OnWorkWriteDone(std::uint64_t attempt) {
  MutexLock lock(mutex_);
  if (attempt != attempt_) return;
  work_writing_ = false;
  if (report_due_) SendReport();
}

void WorkerService::OnWorkClosed(std::uint64_t attempt, const Status& status) {
  std::shared_ptr<Stream<v1::WorkRequest>> gone;  // dropped outside the lock
  MutexLock lock(mutex_);
  if (attempt != attempt_ || stopping_) return;
  gone = std::move(work_);
  work_writing_ = false;
  const double jitter = std::uniform_real_distribution<double>(0.1, retry_seconds_)(random_);
  retry_at_ = clock_->Now() + std::chrono::milliseconds(static_cast<std::int64_t>(jitter * 1e3));
  // Longer only when all of them were tried.
  if (dispatcher_ + 1 == dispatchers_.size()) retry_seconds_ = std::min(5.0, retry_seconds_ * 2);
  if (registered_) {
    log_->Warning("lost the dispatcher; running streams go on",
                  {{"address", dispatchers_[dispatcher_]}, {"status", status.ToString()}});
    no_dispatcher_said_ = clock_->Now();
  } else if (!no_dispatcher_said_ || clock_->Now() - *no_dispatcher_said_ >= kSayAgain) {
    log_->Warning("no dispatcher; it is tried again and again",
                  {{"address", dispatchers_[dispatcher_]}, {"status", status.ToString()}});
    no_dispatcher_said_ = clock_->Now();
  }
  registered_ = false;
  dispatcher_ = (dispatcher_ + 1) % dispatchers_.size();
  lock.Unlock();
}

void WorkerService::SendReport() {
  if (!work_ || stopping_) return;
  if (work_writing_) {
    report_due_ = true;
    return;
  }
  report_due_ = false;
  work_writing_ = true;
  last_report_ = clock_->Now();
  work_->Write(MakeReport());
}

v1::WorkRequest WorkerService::MakeReport() {
  v1::WorkRequest report;
  report.set_protocol(1);
  if (number_.is_set()) {
    report.mutable_id()->set_term(number_.term);
    report.mutable_id()->set_n(number_.n);
  }
  report.set_nonce(nonce_);
  report.set_name(options_.name);
  *report.mutable_self()->mutable_id() = report.id();
  report.mutable_self()->set_address(options_.address);
  report.mutable_self()->set_host_id(options_.host_id);
  report.mutable_self()->set_unix_socket(options_.unix_socket);
  report.add_semantics(kSemantics);
  for (auto& [dataset, state] : provider_->DatasetStates()) {
    if (std::find(file_lists_wanted_.begin(), file_lists_wanted_.end(), dataset) !=
        file_lists_wanted_.end()) {
      for (v1::FileEntry& file : provider_->ListFiles(dataset)) {
        *state.add_file_list() = std::move(file);
      }
    }
    (*report.mutable_datasets())[dataset] = std::move(state);
  }
  file_lists_wanted_.clear();
  for (const auto& [fingerprint, entry] : plans_) {
    v1::PlanState& state = *report.add_plans();
    state.set_fingerprint(fingerprint);
    state.set_phase(entry.phase);
    state.set_error(entry.error.message());
    if (entry.phase == v1::FAILED) {
      state.set_error_code(static_cast<std::uint32_t>(entry.error.code()));
    }
    if (entry.plan) state.set_static_digest(entry.plan->static_digest());
  }
  report.set_queue_seconds(static_cast<double>(queue_.pending()) * mean_build_seconds_ /
                           std::max(1, options_.threads));
  report.set_memory_bytes(queue_.built_bytes());
  report.set_memory_limit_bytes(options_.memory_bytes);
  report.set_streams(static_cast<std::uint32_t>(streams_.size()));
  report.set_draining(draining_);
  for (const auto& [stage, total] : build_seconds_) {
    v1::StageSeconds& seconds = *report.add_build();
    seconds.set_stage(stage);
    seconds.set_seconds(total.seconds);
    seconds.set_count(total.count);
  }
  double blocked = send_blocked_seconds_;
  const Time now = clock_->Now();
  for (const auto& [id, stream] : streams_) {
    if (stream.blocked_since) blocked += ToSeconds(now - *stream.blocked_since);
  }
  report.set_send_blocked_seconds(blocked);
  report.set_threads(static_cast<std::uint32_t>(options_.threads));
  report.set_version(options_.version);
  report.set_sent_batches(sent_batches_);
  report.set_sent_bytes(sent_bytes_);
  trace_.AddTo(report, number_);
  return report;
}

}  // namespace millrace
