#include "client/session/machine/waits.h"

namespace millrace::client {
namespace {

/// A worker tells the stage of builds that take long. Other batches are likely to take their time
/// where the one before them did.
WaitCause CauseOfBuild(const WorkerLink& worker, const std::string& stage) {
  const bool python = stage.empty() ? worker.stream.mostly_python : IsPythonStage(stage);
  return python ? WaitCause::kPython : WaitCause::kBuild;
}

}  // namespace

void Waits::Start(Time now) { counted_until_ = cause_since_ = waiting_since_ = now; }

void Waits::CountUntil(Time now) {
  waited_seconds_[static_cast<std::size_t>(cause_)] += ToSeconds(now - counted_until_);
  waited_seconds_[0] = 0;
  counted_until_ = now;
}

void Waits::Set(bool waiting, Time now) {
  if (waiting && !waiting_) waiting_since_ = now;
  waiting_ = waiting;
}

bool Waits::Update(bool ended, Time now) {
  const WaitCause cause = FindCause(ended);
  if (cause == cause_) return false;
  cause_ = cause;
  cause_since_ = now;
  return true;
}

WaitCause Waits::FindCause(bool ended) const {
  if (!waiting_ || ended) return WaitCause::kNone;
  if (!attach_.admission()) return WaitCause::kAttach;
  if (stock_.holds(stock_.next())) return WaitCause::kExpand;
  const std::uint64_t left = attach_.steps().end() - stock_.next();
  if (stock_.loop_holds() > 2 && stock_.window() == 1 && left > 1) return WaitCause::kSlot;
  const WorkerLink* worker = supply_.NextWorker();
  if (worker == nullptr) return supply_.Connects() ? WaitCause::kConnect : WaitCause::kLease;
  const WorkerLink::StreamFacts& stream = worker->stream;
  if (stream.receiving == attach_.steps().At(stock_.next()) || supply_.NextIsBuilt()) {
    return WaitCause::kTransfer;
  }
  if (const WorkerWord::Build* const build = supply_.NextBuild()) {
    return CauseOfBuild(*worker, build->stage);
  }
  const bool busy =
      stream.spoke() && (!stream.word->building.empty() || stream.word->batches_before > 0);
  return busy ? WaitCause::kQueue : CauseOfBuild(*worker, "");
}

std::string Waits::Text() const {
  std::string text(WaitCauseName(cause_));
  const WorkerLink* const worker = IsForWorker(cause_) ? supply_.NextWorker() : nullptr;
  if (worker != nullptr) text += " (worker " + worker->where.address + ")";
  if (!attach_.waiting_why().empty()) text += ": " + attach_.waiting_why();
  return text;
}

void Waits::AddNow(SessionStats& stats, Time now) const {
  stats.now = cause_;
  if (cause_ == WaitCause::kNone) return;
  const Duration unsaid = now > counted_until_ ? now - counted_until_ : Duration{0};
  stats.waited_seconds[static_cast<std::size_t>(cause_)] += ToSeconds(unsaid);
  stats.now_seconds = ToSeconds(now - cause_since_);
  if (IsForWorker(cause_)) {
    if (const WorkerLink* worker = supply_.NextWorker()) {
      stats.now_worker = worker->where.address;
      const bool builds = cause_ == WaitCause::kBuild || cause_ == WaitCause::kPython;
      const WorkerWord::Build* const build = supply_.NextBuild();
      if (builds && build != nullptr) stats.now_stage = build->stage;
    }
  }
}

}  // namespace millrace::client
