#include "server/dispatcher/machine/worker_choice.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>
#include <variant>

#include "common/base/mutant.h"
#include "common/base/refusal.h"
#include "server/dispatcher/machine/hello_check.h"

namespace millrace {
namespace {

constexpr double kUnknownSecondsPerBatch = 0.01;
constexpr double kFairSeconds = 1;

std::uint64_t Mix(std::uint64_t x) {  // splitmix64, Steele et al. 2014
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t Weight(Number worker, Number session) {
  return Mix(Mix(Mix(worker.term) ^ worker.n) ^ Mix(Mix(session.term) ^ session.n));
}

/// How long one builder thread takes for a batch.
double SecondsPerBatch(const v1::WorkRequest& report) {
  const BuildTotals built = BuildTotalsOf(report);
  return built.batches > 0 && built.seconds > 0 ? built.seconds / static_cast<double>(built.batches)
                                                : kUnknownSecondsPerBatch;
}

/// The seconds of work before a worker, as far as the dispatcher knows.
double QueueSeconds(const Worker& worker, double seconds_per_batch) {
  return worker.report.queue_seconds() +
         seconds_per_batch * static_cast<double>(worker.granted_batches);
}

}  // namespace

bool IsHeard(const Worker& worker, Time now, const DispatcherOptions& options) {
  return worker.stream != 0 && now - worker.heard < options.worker_silence;
}

void ToProto(const Worker& worker, v1::WorkerRef* out) {
  *out = worker.report.self();
  ToProto(worker.id, out->mutable_id());
}

BuildTotals BuildTotalsOf(const v1::WorkRequest& report) {
  BuildTotals totals;
  for (const v1::StageSeconds& stage : report.build()) {
    totals.seconds += stage.seconds();
    // Every batch has some stage, and a stage once.
    totals.batches = std::max<std::uint64_t>(totals.batches, stage.count());
  }
  return totals;
}

bool IsUsable(const Worker& worker, const SessionFacts& session, Time now,
              const DispatcherOptions& options) {
  return session.plan && IsHeard(worker, now, options) && !worker.draining() &&
         (worker.ready.contains(session.plan->fingerprint) ||
          IsMutant(Mutant::kUnreadyWorkerLeased)) &&
         (!worker.loopback || SameHost(worker.report.self().host_id(), session.hello.host_id()));
}

const Worker* FailedLongestAgo(const std::map<Number, Worker>& workers, const SessionFacts& session,
                               std::optional<Position> at, Time now,
                               const DispatcherOptions& options) {
  const auto rank = [](const FailingWorker& failing) {
    const bool for_good = IsRefusedForGood(failing.code) && failing.refused.empty();
    return std::tuple(for_good, failing.since, failing.remaining_seconds);
  };
  const Worker* longest = nullptr;
  const FailingWorker* longest_failing = nullptr;
  for (const auto& [id, failing] : session.failing) {
    const auto worker = workers.find(id);
    if (worker == workers.end() || !IsUsable(worker->second, session, now, options)) continue;
    if (at && failing.refused.contains(*at)) continue;
    if (longest != nullptr && rank(*longest_failing) <= rank(failing)) continue;
    longest = &worker->second;
    longest_failing = &failing;
  }
  return longest;
}

WorkerSet MakeWorkerSet(const std::map<Number, Worker>& workers, const SessionFacts& session,
                        Time now, const DispatcherOptions& options) {
  struct Candidate {
    const Worker* worker;
    bool same_host;
    std::uint64_t weight;  // of rendezvous hashing
  };
  std::vector<Candidate> all;
  for (const auto& [id, worker] : workers) {
    if (!IsUsable(worker, session, now, options)) continue;
    if (session.failing.contains(id) && !IsMutant(Mutant::kFailingWorkerGivenAgain)) continue;
    all.push_back({&worker, SameHost(worker.report.self().host_id(), session.hello.host_id()),
                   Weight(id, session.id)});
  }
  if (all.empty()) {
    const Worker* failing = FailedLongestAgo(workers, session, std::nullopt, now, options);
    if (failing != nullptr) return {{failing}, 0};
  }
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.same_host != b.same_host ? a.same_host : a.weight < b.weight;
  });
  if (all.size() > options.max_workers_of_consumer) all.resize(options.max_workers_of_consumer);
  WorkerSet set;
  for (const Candidate& candidate : all) {
    set.workers.push_back(candidate.worker);
    if (candidate.same_host) ++set.own_host;
  }
  return set;
}

const WorkerSet& WorkerSets::Of(const SessionFacts& session,
                                const std::map<Number, Worker>& workers, Time now,
                                const DispatcherOptions& options) {
  if (!session.failing.empty() || !session.plan) {
    last_ = MakeWorkerSet(workers, session, now, options);
    return last_;
  }
  const auto [entry, is_new] = sets_.try_emplace(session.id);
  WorkerSet& set = entry->second;
  // If only time passes, workers can fall silent and leave a set, but none can join it.
  const bool heard = std::all_of(set.workers.begin(), set.workers.end(),
                                 [&](const Worker* w) { return IsHeard(*w, now, options); });
  if (is_new || !heard) set = MakeWorkerSet(workers, session, now, options);
  return set;
}

void WorkerSets::WillApply(const Update& update, const std::map<Number, Worker>& workers, Time now,
                           const DispatcherOptions& options) {
  if (const auto* reported = std::get_if<WorkerReported>(&update)) {
    const Worker& worker = workers.find(reported->id)->second;
    const v1::WorkRequest& report = reported->report;
    const bool same = IsHeard(worker, now, options) &&
                      worker.report.draining() == report.draining() &&
                      worker.report.self().address() == report.self().address() &&
                      worker.report.self().host_id() == report.self().host_id() &&
                      worker.ready == ReadyPlans(report);
    if (!same) sets_.clear();
  } else if (std::holds_alternative<WorkerLeft>(update) ||
             std::holds_alternative<WorkerDrained>(update) ||
             std::holds_alternative<TimeGranted>(update)) {
    sets_.clear();
  } else if (const auto* ended = std::get_if<SessionEnded>(&update)) {
    sets_.erase(ended->id);
  }
}

void WorkerChooser::Look() {
  assert(!empty());
  if (!candidates_.empty()) return;
  const std::size_t choices = set_.own_host > 0 ? set_.own_host : set_.workers.size();
  candidates_.reserve(choices);
  for (std::size_t i = 0; i < choices; ++i) {
    const Worker* const worker = set_.workers[i];
    const double per_batch = SecondsPerBatch(worker->report);
    candidates_.push_back({worker, per_batch, QueueSeconds(*worker, per_batch)});
  }
}

const Worker& WorkerChooser::Pick(std::uint32_t batches, std::mt19937_64& random) {
  Look();
  const std::size_t choices = candidates_.size();
  std::size_t best = random() % choices;
  if (choices > 1) {
    std::size_t other = random() % (choices - 1);
    if (other >= best) ++other;
    if (candidates_[other].queue_seconds < candidates_[best].queue_seconds) best = other;
  }
  Candidate& chosen = candidates_[best];
  chosen.queue_seconds += chosen.seconds_per_batch * batches;
  return *chosen.worker;
}

bool WorkerChooser::IsFair(const Worker& worker) {
  const double seconds = QueueSeconds(worker, SecondsPerBatch(worker.report));
  if (seconds <= kFairSeconds) return true;
  Look();
  const auto least = std::min_element(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return a.queue_seconds < b.queue_seconds; });
  return seconds <= least->queue_seconds + kFairSeconds;
}

}  // namespace millrace
