#include "server/dispatcher/worker_choice.h"

#include <algorithm>
#include <cassert>
#include <tuple>

#include "common/transport/refusal.h"
#include "server/dispatcher/hello_check.h"

namespace millrace {
namespace {

constexpr double kUnknownSecondsPerBatch = 0.01;

std::uint64_t Mix(std::uint64_t x) {  // splitmix64, Steele et al. 2014
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t Weight(Number worker, Number session) {
  return Mix(Mix(Mix(worker.term) ^ worker.n) ^ Mix(Mix(session.term) ^ session.n));
}

double SecondsPerBatch(const v1::WorkRequest& report) {
  double seconds = 0;
  std::uint64_t batches = 0;
  for (const auto& stage : report.build()) {
    seconds += stage.seconds();
    batches = std::max<std::uint64_t>(batches, stage.count());
  }
  const bool known = batches > 0 && seconds > 0;
  return known ? seconds / static_cast<double>(batches) : kUnknownSecondsPerBatch;
}

}  // namespace

bool IsHeard(const Worker& worker, Time now, const DispatcherOptions& options) {
  return worker.stream != 0 && now - worker.heard < options.worker_silence;
}

bool IsUsable(const Worker& worker, const SessionFacts& session, Time now,
              const DispatcherOptions& options) {
  return session.plan && IsHeard(worker, now, options) && !worker.draining() &&
         worker.ready.contains(session.plan->fingerprint) &&
         (!IsLoopback(worker.report.self().address()) ||
          SameHost(worker.report.self().host_id(), session.hello.host_id()));
}

WorkerChooser::WorkerChooser(const std::map<Number, Worker>& workers, const SessionFacts& session,
                             Time now, const DispatcherOptions& options) {
  const Worker* failed_longest_ago = nullptr;
  FailingWorker longest{};
  for (const auto& [id, worker] : workers) {
    if (!IsUsable(worker, session, now, options)) continue;
    const auto failing = session.failing.find(id);
    if (failing != session.failing.end()) {
      const FailingWorker& f = failing->second;
      const auto rank = [](const FailingWorker& w) {
        return std::tuple(IsRefusedForGood(w.code), w.since, w.remaining_seconds);
      };
      if (failed_longest_ago == nullptr || rank(f) < rank(longest)) {
        failed_longest_ago = &worker;
        longest = f;
      }
      continue;
    }
    const double per_batch = SecondsPerBatch(worker.report);
    set_.push_back(
        {&worker, SameHost(worker.report.self().host_id(), session.hello.host_id()),
         Weight(id, session.id), per_batch,
         worker.report.queue_seconds() + per_batch * static_cast<double>(worker.granted_batches)});
  }
  if (set_.empty() && failed_longest_ago != nullptr) {
    set_.push_back({failed_longest_ago, false, 0, 0, 0});
  }
  std::sort(set_.begin(), set_.end(), [](const Candidate& a, const Candidate& b) {
    return a.same_host != b.same_host ? a.same_host : a.weight < b.weight;
  });
  if (set_.size() > options.max_workers_of_consumer) set_.resize(options.max_workers_of_consumer);
  choices_ = static_cast<std::size_t>(
      std::count_if(set_.begin(), set_.end(), [](const Candidate& c) { return c.same_host; }));
  if (choices_ == 0) choices_ = set_.size();
}

const Worker& WorkerChooser::Pick(std::uint32_t batches, std::mt19937_64& random) {
  assert(!empty());
  std::size_t best = random() % choices_;
  if (choices_ > 1) {
    std::size_t other = random() % (choices_ - 1);
    if (other >= best) ++other;
    if (set_[other].queue_seconds < set_[best].queue_seconds) best = other;
  }
  Candidate& chosen = set_[best];
  chosen.queue_seconds += chosen.seconds_per_batch * batches;
  return *chosen.worker;
}

}  // namespace millrace
