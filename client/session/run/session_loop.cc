// The calls of a training loop to its session: for batches, and for its place.

#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "client/session/run/session_runner.h"
#include "common/transport/convert/tables.h"

namespace millrace {
namespace {

constexpr double kStaticSilenceSeconds = 30;

/// How often a blocked loop asks whether it should go on waiting.
constexpr auto kAskApart = std::chrono::milliseconds(50);

}  // namespace

bool SessionRunner::WaitUntilAskDue(const Interrupt& interrupt, WallTime* asked) {
  if (interrupt == nullptr) {
    loop_.Wait(mutex_);
    return false;
  }
  loop_.WaitFor(mutex_, kAskApart);
  const WallTime now = std::chrono::steady_clock::now();
  if (now - *asked < kAskApart) return false;
  *asked = now;
  return true;
}

Status SessionRunner::Attach(const Interrupt& interrupt) {
  WallTime asked;
  MutexLock lock(mutex_);
  while (!attached_ && !cancelled_ && machine_.status().ok()) {
    if (!WaitUntilAskDue(interrupt, &asked)) continue;
    lock.Unlock();
    const bool interrupted = interrupt();
    lock.Lock();
    if (interrupted) return Cancelled("interrupted");
  }
  if (cancelled_) return Cancelled("the session was cancelled");
  return machine_.status();
}

bool SessionRunner::AtEndOfEpoch() const {
  const std::uint64_t next = machine_.next();
  return next == machine_.steps().end() || machine_.steps().At(next).epoch != epoch_;
}

Result<std::optional<Batch>> SessionRunner::Next(const Interrupt& interrupt) {
  MutexLock lock(mutex_);
  bool waited = false;
  WallTime asked = std::chrono::steady_clock::now();
  Result<std::optional<Batch>> next = std::optional<Batch>();
  // The next step's batch, once it is expanded.
  std::optional<Result<client::ExpandedBatch>> expanded;
  for (;;) {
    if (cancelled_) {
      next = Cancelled("the session was cancelled");
      break;
    }
    if (!machine_.status().ok()) {
      next = machine_.status();
      break;
    }
    if (attached_ && AtEndOfEpoch()) break;
    if (attached_) {
      if (!std::exchange(loop_asks_, true)) machine_.OnLoopAsks(Now());
      const std::uint64_t step = machine_.next();
      const Time began = trace_.tracer().Begin();
      if (!expanded) expanded = prefetcher_->TryTake(step);
      if (expanded) {
        if (expanded->ok()) {
          if (trace_.tracer().on()) RecordTaken(step, expanded->value(), began);
          next = std::optional<Batch>(MakeBatch(step, std::move(*expanded).value()));
          machine_.OnTaken(Now());
          loop_asks_ = false;
          machine_.SetLoopHolds(holds_->batches.load(), Now());
        } else {
          next = expanded->status();
          machine_.Leave(expanded->status(), Now());
        }
        break;
      }
      if (auto packed = prefetcher_->TakePacked(step)) {
        client::Prefetcher& prefetcher = *prefetcher_;
        lock.Unlock();
        expanded = prefetcher.Expand(std::move(packed));
        lock.Lock();
        continue;
      }
    }
    if (!waited) {
      waited = true;
      machine_.SetWaiting(true, Now());
      AfterEvent();
      continue;
    }
    loop_waits_ = true;
    bool interrupted = false;
    if (WaitUntilAskDue(interrupt, &asked)) {
      lock.Unlock();
      interrupted = interrupt();
      lock.Lock();
    }
    loop_waits_ = false;
    if (interrupted) {
      next = Cancelled("interrupted");
      break;
    }
  }
  if (waited) machine_.SetWaiting(false, Now());
  AfterEvent();
  return next;
}

void SessionRunner::Push(std::uint64_t step, std::shared_ptr<const PackedBatch> batch) {
  const bool loop_waits = loop_waits_ && step == machine_.next();
  prefetcher_->Push(step, std::move(batch), loop_waits);
  if (loop_waits) loop_.NotifyAll();
}

Batch SessionRunner::MakeBatch(std::uint64_t step, client::ExpandedBatch expanded) {
  auto rep = std::make_shared<Batch::Rep>();
  if (options_.packed) rep->packed = std::move(expanded.packed);
  rep->micro_batches = std::move(expanded.micro_batches);
  rep->position = machine_.steps().At(step);
  rep->rank = machine_.steps().rank();
  rep->step = machine_.steps().arithmetic().Step(rep->position);
  rep->ordinal = machine_.steps().arithmetic().Ordinal(rep->position, rep->rank);
  ++holds_->batches;
  rep->held = std::shared_ptr<const void>(holds_.get(), [holds = holds_](const void*) {
    --holds->batches;
    if (const std::shared_ptr<SessionRunner> runner = holds->runner.lock()) runner->OnLoopHolds();
  });
  return Batch(std::move(rep));
}

void SessionRunner::OnLoopHolds() {
  MutexLock lock(mutex_);
  if (stopping_) return;
  machine_.SetLoopHolds(holds_->batches.load(), Now());
  AfterEvent();
}

Result<bool> SessionRunner::NextEpoch() {
  MutexLock lock(mutex_);
  if (cancelled_) return Cancelled("the session was cancelled");
  if (!machine_.status().ok()) return machine_.status();
  if (!attached_ || !AtEndOfEpoch()) {
    return FailedPrecondition(fmt::format(
        "batches of epoch {} are left: take them with Next, until it gives none", epoch_));
  }
  if (machine_.next() == machine_.steps().end()) return false;
  epoch_ = machine_.steps().At(machine_.next()).epoch;
  return true;
}

void SessionRunner::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  loop_.NotifyAll();
}

// --- what users ask ---------------------------------------------------------------------------

std::uint64_t SessionRunner::epoch() {
  MutexLock lock(mutex_);
  return epoch_;
}

Position SessionRunner::position() {
  MutexLock lock(mutex_);
  return attached_ ? machine_.steps().At(machine_.next()) : Position{};
}

SessionStats SessionRunner::stats() {
  MutexLock lock(mutex_);
  SessionStats stats = machine_.stats(Now());
  stats.device = device_->status();
  return stats;
}

std::string SessionRunner::waiting_why() {
  MutexLock lock(mutex_);
  return machine_.waiting_why();
}

Result<std::string> SessionRunner::FetchStatic(const std::string& address,
                                               const std::string& fingerprint,
                                               const std::string& digest,
                                               const Interrupt& interrupt) {
  std::optional<Result<std::string>> fetched;
  std::thread thread;
  std::stop_source stop;
  std::optional<Status> ended;
  {
    MutexLock lock(mutex_);
    if (cancelled_) return Cancelled("the session was cancelled");
    thread = std::thread([&, token = stop.get_token()] {
      Result<std::string> bytes =
          connector_->GetStatic(address, fingerprint, digest, kStaticSilenceSeconds, token);
      MutexLock fetched_lock(mutex_);
      fetched = std::move(bytes);
      loop_.NotifyAll();
    });
    WallTime asked;
    while (!fetched && !ended) {
      if (WaitUntilAskDue(interrupt, &asked)) {
        lock.Unlock();
        const bool interrupted = interrupt();
        lock.Lock();
        if (interrupted) ended = Cancelled("interrupted");
      }
      if (cancelled_) ended = Cancelled("the session was cancelled");
    }
  }
  stop.request_stop();
  thread.join();
  return ended ? Result<std::string>(*ended) : std::move(*fetched);
}

Result<std::shared_ptr<const NamedTables>> SessionRunner::Tables(const Interrupt& interrupt) {
  MILLRACE_RETURN_IF_ERROR(Attach(interrupt));
  MutexLock tables_lock(tables_mutex_);
  if (tables_ != nullptr) return tables_;
  std::vector<std::string> addresses;
  std::string fingerprint;
  std::string digest;
  {
    MutexLock lock(mutex_);
    fingerprint = machine_.admission()->fingerprint.ToString();
    digest = machine_.admission()->static_digest;
    // Workers with later numbers joined later: an earlier worker at the same address is gone. So
    // later numbers come first, and workers that are failing come last.
    const auto& workers = machine_.workers().all();
    const Time now = Now();
    for (const bool failing : {false, true}) {
      for (auto link = workers.rbegin(); link != workers.rend(); ++link) {
        if ((link->second.failing_until > now) == failing) {
          addresses.push_back(link->second.where.address);
        }
      }
    }
  }
  Status why = Unavailable("no worker is known that has the static tables: try again");
  for (const std::string& address : addresses) {
    Result<std::string> bytes = FetchStatic(address, fingerprint, digest, interrupt);
    if (!bytes.ok() && bytes.status().code() == StatusCode::kCancelled) return bytes.status();
    if (!bytes.ok()) {
      why = bytes.status().WithContext("the static tables from worker " + address);
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(NamedTables tables, DecodeTables(*bytes));
    MILLRACE_RETURN_IF_ERROR(CheckTables(tables, spec_.tables));
    tables_ = std::make_shared<const NamedTables>(std::move(tables));
    return tables_;
  }
  return why;
}

}  // namespace millrace
