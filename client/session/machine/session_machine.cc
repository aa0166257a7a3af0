#include "client/session/machine/session_machine.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "client/session/machine/session_times.h"

namespace millrace::client {
namespace {

// If more time passes between two events, this process stood still, since a tick is due at least
// once a second. That time does not mean that others were silent.
constexpr Duration kStoodStill = std::chrono::seconds(2);

// All times for which workers are looked at come later than this after their cause. So a look so
// often, and when one of the times known then is due, misses none.
constexpr Duration kCheckEvery = std::chrono::milliseconds(500);

// Steps are dealt so far apart, unless somebody waits: so that one look at all workers serves many
// small batches. If there are more workers than kFewMembers, a look costs more, and the looks are
// up to kMostTimes as far apart. Each worker has a second step meanwhile.
constexpr Duration kProvideApart = std::chrono::milliseconds(5);
constexpr std::size_t kFewMembers = 64;
constexpr std::size_t kMostTimes = 4;

}  // namespace

SessionMachine::SessionMachine(SessionMachineOptions options, std::function<double()> random,
                               std::shared_ptr<Logger> logger)
    : context_{std::move(options), std::move(logger), {}, {}},
      asks_([this](std::uint64_t step) { return attach_.steps().BreaksRuns(step); }),
      attach_(context_, std::move(random)),
      stock_(context_, attach_),
      dealing_(context_, attach_, stock_, pace_, workers_, asks_),
      streams_(context_, dealing_, workers_, asks_),
      supply_(context_, attach_, stock_, asks_, workers_, dealing_),
      waits_(attach_, stock_, supply_),
      grants_(context_, attach_, stock_, pace_, asks_, dealing_, workers_),
      tuning_(context_),
      report_(
          {attach_, list_, stock_, asks_, workers_, supply_, dealing_, streams_, pace_, waits_}) {}

void SessionMachine::Start(Time now) {
  now_ = now;
  waits_.Start(now);
  attach_.Start(now);
}

void SessionMachine::Enter(Time now) {
  waits_.CountUntil(now);
  const Duration passed = now - now_;
  if (passed > kStoodStill) {
    const Duration more = passed - kReportEvery;
    attach_.StoodStill(more);
    pace_.StoodStill(more);
    supply_.StoodStill(more, now);
    waits_.StoodStill(more);
  }
  now_ = now;
}

void SessionMachine::Reconcile(Time now) {
  CheckTimes(now);
  if (attach_.admission() && status_.ok()) Provide(now);
  SendReportWhereDue(now);
  if (waits_.Update(!status_.ok(), now)) context_.stale.MarkReport();
}

Time SessionMachine::ProvideDue() const {
  const std::size_t times = workers_.members().size() / kFewMembers;
  return provided_ +
         kProvideApart * static_cast<int>(std::clamp<std::size_t>(times, 1, kMostTimes));
}

void SessionMachine::Provide(Time now) {
  StaleMarks& stale = context_.stale;
  const bool looks = dealing_.LookDue(now);
  if (looks) dealing_.Look(now);
  if (looks || stale.grants_due() || (stale.grants() && now >= ProvideDue())) {
    stale.Granted();
    provided_ = credited_ = now;
    dealing_.Deal(now);
    streams_.Open(now);
    grants_.GiveCredit();
    if (const bool asks = dealing_.asks(now); asks != said_asks_) {
      said_asks_ = asks;
      workers_.MarkStale(false);
      stale.MarkReport();
    }
  } else if (stale.grants() && now >= credited_ + kProvideApart) {
    // Credit looks at no member that is asked for nothing within it, so it need not wait so long.
    credited_ = now;
    grants_.GiveCredit();
  }
  grants_.SendWantsWhereDue(now);
}

void SessionMachine::End(const Status& status) {
  if (!status_.ok()) return;
  status_ = status;
  supply_.CloseStreams(status_);
}

void SessionMachine::Leave(const Status& why, Time now) {
  Enter(now);
  End(why.ok() ? Cancelled("the session was closed") : why);
  leaving_ = true;
  Reconcile(now);
}

// --- the dispatcher's stream ------------------------------------------------------------------

void SessionMachine::OnAttachMessage(StreamId stream, const v1::AttachResponse& message, Time now) {
  Enter(now);
  if (status_.ok() && attach_.OnMessage(stream, message, now)) {
    if (message.has_welcome()) {
      const bool admitted = attach_.admission().has_value();
      const Status welcome = attach_.OnWelcome(message.welcome(), now);
      if (!welcome.ok()) End(welcome);
      if (!admitted && attach_.admission()) {
        stock_.OnAdmitted();
        tuning_.Start(report_.Counted(), now);
      }
    }
    if (attach_.admission() && message.has_list()) TakeList(message, now);
  }
  Reconcile(now);
}

void SessionMachine::TakeList(const v1::AttachResponse& message, Time now) {
  if (message.has_welcome()) list_.OnWelcome();
  if (!list_.Take(message.list(), message.term(), now)) return;
  UseMembers();
  if (!workers_.members().empty()) attach_.OnMembers();
}

void SessionMachine::UseMembers() {
  workers_.SetList(list_.Members());
  context_.stale.MarkGrantsDue();
}

void SessionMachine::OnAttachWritten(StreamId stream, Time now) {
  Enter(now);
  attach_.OnWritten(stream);
  Reconcile(now);
}

void SessionMachine::OnAttachClosed(StreamId stream, const Status& status, Time now) {
  Enter(now);
  const Status end = attach_.OnClosed(stream, status, leaving_, now);
  if (!end.ok()) End(end);
  if (list_.OnDispatcherLost()) UseMembers();
  Reconcile(now);
}

void SessionMachine::SendReportWhereDue(Time now) {
  const bool bye = leaving_ || !status_.ok();
  if (!attach_.ReportDue(bye, now)) return;
  std::optional<v1::Report> report = MakeReport(now);
  // A session that is not admitted yet has nothing to report. It sends an empty report, so that the
  // dispatcher hears from it.
  if (!bye && !report) report.emplace();
  AddTuning(report, now);
  // A session that its user closes, or cancels, is cancelled.
  const bool failed = !status_.ok() && status_.code() != StatusCode::kCancelled;
  attach_.SendReport(bye, std::move(report), failed ? status_.message() : "", now);
}

void SessionMachine::AddTuning(std::optional<v1::Report>& report, Time now) {
  if (!report || !attach_.admission() || tuning_told_ == tuning_.changes()) return;
  tuning_.AddTo(*report->mutable_tuning(), now);
  tuning_told_ = tuning_.changes();
}

std::optional<v1::Report> SessionMachine::MakeReport(Time now) const {
  if (!attach_.admission()) return std::nullopt;
  return report_.Make(!status_.ok(), now);
}

// --- the workers' streams ---------------------------------------------------------------------

bool SessionMachine::OnBatchesFragment(StreamId stream, const v1::BatchFragment& fragment,
                                       std::uint64_t data_bytes, Time now) {
  Enter(now);
  WorkerLink* link = workers_.FindStream(stream);
  if (link == nullptr || !status_.ok()) return false;
  const bool wanted = supply_.OnFragment(*link, fragment, data_bytes, now);
  Reconcile(now);
  return wanted;
}

Verdict SessionMachine::OnBatchesArrival(StreamId stream, const Arrival& arrival, Time now) {
  Enter(now);
  WorkerLink* link = workers_.FindStream(stream);
  if (link == nullptr || !status_.ok()) return Verdict::kUnwanted;
  const Verdict verdict = supply_.OnArrival(*link, arrival, now);
  Reconcile(now);
  return verdict;
}

void SessionMachine::OnBatchesBad(StreamId stream, const Status& status, Time now) {
  Enter(now);
  context_.stale.MarkGrantsDue();
  if (WorkerLink* link = workers_.FindStream(stream)) supply_.OnBad(*link, status, now);
  Reconcile(now);
}

void SessionMachine::OnBatchesWritten(StreamId stream, Time now) {
  Enter(now);
  if (WorkerLink* link = workers_.FindStream(stream)) link->stream.writing = false;
  Reconcile(now);
}

void SessionMachine::OnBatchesClosed(StreamId stream, const Status& status, Time now) {
  Enter(now);
  context_.stale.MarkGrantsDue();
  if (WorkerLink* link = workers_.FindStream(stream)) supply_.OnClosed(*link, status, now);
  Reconcile(now);
}

// --- the loop ---------------------------------------------------------------------------------

void SessionMachine::OnLoopAsks(Time now) {
  Enter(now);
  LoopAsks(now);
  Reconcile(now);
}

void SessionMachine::LoopAsks(Time now) {
  const StepAsks* const asks = asks_.Find(stock_.next());
  pace_.OnAsks(now, stock_.holds(stock_.next()) || (asks != nullptr && asks->is_built()));
}

void SessionMachine::OnTaken(Time now) {
  Enter(now);
  pace_.OnTaken(now);
  stock_.Take();
  asks_.Pass(stock_.next());
  tuning_.OnTaken(stock_);
  workers_.ForgetRefusals(stock_.next());
  waits_.OnTaken(now);
  context_.stale.MarkReport();
  context_.stale.MarkGrants();
  if (asks_.free().IsFree(stock_.next())) context_.stale.MarkGrantsDue();
  grants_.TellNext();
  Reconcile(now);
}

void SessionMachine::SetWaiting(bool waiting, Time now) {
  Enter(now);
  if (waiting) LoopAsks(now);
  waits_.Set(waiting, now);
  Reconcile(now);
}

void SessionMachine::SetLoopHolds(std::uint64_t batches, Time now) {
  Enter(now);
  if (stock_.SetLoopHolds(batches)) context_.stale.MarkGrants();
  Reconcile(now);
}

// --- time -------------------------------------------------------------------------------------

void SessionMachine::Tick(Time now) {
  Enter(now);
  context_.stale.MarkGrantsDue();
  Reconcile(now);
}

void SessionMachine::CheckTimes(Time now) {
  if (!status_.ok()) return;
  if (const Status late = attach_.CheckTimes(now); !late.ok()) return End(late);
  if (const Status late = CheckReadTime(now); !late.ok()) return End(late);
  if (attach_.ConnectDue(now)) {
    std::optional<v1::Report> report = MakeReport(now);
    tuning_told_ = 0;
    AddTuning(report, now);
    attach_.Connect(std::move(report), now);
  }
  if (list_.Tick(now)) UseMembers();
  if (now >= check_at_) CheckWorkers(now);
  if (tuning_.Due(now)) {
    tuning_.Look(report_.Counted(), stock_, {workers_.members().size(), dealing_.wants_more()},
                 now);
  }
}

void SessionMachine::CheckWorkers(Time now) {
  supply_.CheckTimes(now);
  streams_.CloseUnused(now);
  context_.stale.MarkGrants();
  NextDue next(now);
  supply_.AddTimes(next);
  streams_.AddRetries(next);
  next.At(now + kCheckEvery);
  check_at_ = next.due();
}

Status SessionMachine::CheckReadTime(Time now) const {
  const Duration limit = context_.options.read_timeout;
  if (limit == Duration{0} || !waits_.waiting() || now - waits_.waiting_since() < limit) {
    return OkStatus();
  }
  return DeadlineExceeded(fmt::format(
      "no batch came for {:g} s (read_timeout){}: the loop waits for {}", ToSeconds(limit),
      attach_.admission() ? " at " + attach_.steps().At(stock_.next()).ToString() : "",
      waits_.Text()));
}

Time SessionMachine::NextTick() const {
  NextDue next(now_);
  if (!status_.ok()) return next.due();
  attach_.AddTimes(next);
  if (attach_.admission()) {
    if (context_.stale.grants()) {
      next.At(ProvideDue());
      next.At(credited_ + kProvideApart);
    }
    dealing_.AddTimes(next);
    streams_.AddTimes(next);
    grants_.AddTimes(next);
  }
  list_.AddTimes(next);
  next.At(check_at_);
  tuning_.AddTimes(next);
  if (waits_.waiting() && context_.options.read_timeout > Duration{0}) {
    next.At(waits_.waiting_since() + context_.options.read_timeout);
  }
  return next.due();
}

std::vector<Action> SessionMachine::TakeActions() { return context_.actions.Take(); }

}  // namespace millrace::client
