#include "client/session/machine/session_machine.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/base/addresses.h"
#include "common/base/mutant.h"
#include "common/base/protocol_limits.h"
#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/steps.h"

namespace millrace::client {
namespace {

constexpr std::size_t kPastKept = 64;
// Longer between two events means that this process stood still, not that others were silent: a
// tick is due at least once a second.
constexpr Duration kStoodStill = std::chrono::seconds(2);
// A dispatcher that comes back finds its consumers spread over a second, all the more the longer it
// was away.
constexpr double kShortestRetry = 0.1;
constexpr double kFirstRetry = 1;
constexpr double kLongestRetry = 5;
// A stream that lasted less than so many times the pause before it counts as a failure too: at most
// a tenth of the time goes into coming back.
constexpr int kRetryBudget = 10;

/// Whether trying again cannot help.
bool EndsSession(StatusCode code, bool admitted) {
  switch (code) {
    case StatusCode::kAborted:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kInvalidArgument:
    case StatusCode::kDataLoss:
      return true;
    // What a running session survives says at first contact that something was set up wrongly.
    case StatusCode::kNotFound:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnimplemented:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
    case StatusCode::kDeadlineExceeded:
      return !admitted;
    default:
      return false;
  }
}

}  // namespace

SessionMachine::SessionMachine(SessionMachineOptions options, std::function<double()> random,
                               std::shared_ptr<Logger> logger)
    : options_(std::move(options)),
      addresses_(SplitAddresses(options_.address)),
      random_(std::move(random)),
      logger_(std::move(logger)) {}

void SessionMachine::Start(Time now) {
  started_ = now_ = cause_since_ = waiting_since_ = now;
  Connect(now);
}

void SessionMachine::Enter(Time now) {
  const Duration passed = now - now_;
  stats_.waited_seconds[static_cast<std::size_t>(cause_)] += ToSeconds(passed);
  stats_.waited_seconds[0] = 0;
  if (passed > kStoodStill) {
    const Duration more = passed - kReportEvery;
    attach_.heard = attach_.heard + more;
    dispatcher_heard_ = dispatcher_heard_ + more;
    for (auto& [id, link] : workers_.all()) {
      link.stream.heard = link.stream.heard + more;
      link.stream.telling_since = now;
    }
  }
  now_ = now;
}

void SessionMachine::Settle(Time now) {
  CheckTimes(now);
  if (admission_ && status_.ok()) {
    if (GrantsDue(now)) {
      grants_stale_ = grants_due_ = false;
      granted_ = now;
      CutLeases();
      LeaseToItself(now);
      GiveRoom();
      OpenStreams(now);
      GiveCredit();
    }
    SendWantsWhereDue(now);
  }
  SendReportWhereDue(now);
  const WaitCause cause = FindCause();
  if (cause != cause_) {
    cause_ = cause;
    cause_since_ = now;
    report_stale_ = true;
  }
}

void SessionMachine::End(Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  for (auto& [id, link] : workers_.all()) {
    if (link.stream.id != 0) actions_.push_back(CloseStream{link.stream.id, status_});
    workers_.Closed(link);
  }
}

void SessionMachine::Leave(const Status& why, Time now) {
  Enter(now);
  End(why.ok() ? Cancelled("the session was closed") : why);
  leaving_ = true;
  Settle(now);
}

// --- the dispatcher's stream ------------------------------------------------------------------

void SessionMachine::Connect(Time now) {
  attach_.stream = ++last_stream_;
  attach_.heard = attach_.opened = now;
  attach_.heard_any = attach_.bye_sent = false;
  attach_.writing = true;
  reported_ = now;
  v1::AttachRequest message;
  *message.mutable_hello() = options_.hello;
  message.mutable_hello()->set_highest_term(highest_term_);
  message.mutable_hello()->set_admitted(admission_.has_value());
  if (session_.is_set()) ToProto(session_, message.mutable_hello()->mutable_session());
  if (admission_) {
    *message.mutable_report() = MakeReport(now);
    asked_until_ = next_ + lease_window();
  }
  actions_.push_back(OpenAttach{attach_.stream, address()});
  actions_.push_back(SendAttach{attach_.stream, std::move(message)});
}

void SessionMachine::Disconnect(const Status& why, Time now) {
  last_attach_error_ = why;
  attach_.stream = 0;
  attach_.writing = attach_.heard_any = false;
  // Longer only when all addresses were tried.
  const int rounds = attach_.failures / static_cast<int>(addresses_.size());
  const double longest =
      std::min(kLongestRetry, kFirstRetry * static_cast<double>(1u << std::min(rounds, 6)));
  const double seconds = kShortestRetry + random_() * (longest - kShortestRetry);
  attach_.pause = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  attach_.retry_at = now + attach_.pause;
  if (attach_.failures++ == 0) {
    attach_.lost = now;
    logger_->Info("dispatcher lost", {{"address", address()}, {"why", why}});
  }
  attach_.address = (attach_.address + 1) % addresses_.size();
}

void SessionMachine::OnAttachClosed(StreamId stream, const Status& status, Time now) {
  Enter(now);
  if (stream == attach_.stream && stream != 0) {
    if (!leaving_ && EndsSession(status.code(), admission_.has_value())) {
      attach_.stream = 0;
      attach_.writing = false;
      End(status.code() == StatusCode::kUnimplemented ? status.WithContext(options_.address)
                                                      : status);
    } else {
      Disconnect(status.ok() ? Unavailable("the dispatcher closed the stream") : status, now);
    }
  }
  Settle(now);
}

void SessionMachine::OnAttachWritten(StreamId stream, Time now) {
  Enter(now);
  if (stream == attach_.stream && stream != 0) {
    attach_.writing = false;
    if (attach_.bye_sent) {
      actions_.push_back(CloseStream{stream, OkStatus()});
      attach_.stream = 0;
    }
  }
  Settle(now);
}

void SessionMachine::OnAttachMessage(StreamId stream, const v1::AttachResponse& message, Time now) {
  Enter(now);
  if (stream == attach_.stream && stream != 0 && status_.ok()) {
    if (message.term() < highest_term_ && !IsMutant(Mutant::kLowerTermObeyed)) {
      const Status why = Unavailable(
          fmt::format("a dispatcher at {} of term {}, after one of term {}: it no longer leads",
                      address(), message.term(), highest_term_));
      actions_.push_back(CloseStream{stream, why});
      Disconnect(why, now);
    } else {
      highest_term_ = message.term();
      attach_.heard = dispatcher_heard_ = now;
      if (!attach_.heard_any && attach_.failures > 0) {
        logger_->Log(attach_.lost_long ? LogLevel::kWarning : LogLevel::kInfo, "dispatcher found",
                     {{"address", address()}, {"term", message.term()}});
      }
      attach_.heard_any = true;
      if (now - attach_.opened >= attach_.pause * kRetryBudget) attach_.failures = 0;
      attach_.lost_long = false;
      if (message.has_waiting()) {
        session_ = FromProto(message.waiting().session());
        if (waiting_why_.empty()) waiting_began_ = now;
        if (waiting_why_ != message.waiting().why()) {
          waiting_why_ = message.waiting().why();
          waiting_why_since_ = now;
        }
      }
      if (message.has_welcome()) OnWelcome(message.welcome(), now);
      if (admission_ && message.leases_size() > 0) OnLeases(message);
      grants_due_ = true;
    }
  }
  Settle(now);
}

void SessionMachine::OnWelcome(const v1::Welcome& welcome, Time now) {
  session_ = FromProto(welcome.session());
  waiting_why_.clear();
  waiting_why_said_.clear();
  self_leasing_ = false;
  // Its leases come in a moment; but a loop that has waited does not wait as long again.
  if (uncovered_since_) {
    uncovered_since_ = std::max(*uncovered_since_, now + -(kSilence - kWelcomeLeases));
  }
  const Result<Fingerprint> fingerprint = Fingerprint::FromString(welcome.fingerprint());
  if (!fingerprint.ok()) return End(fingerprint.status().WithContext("the dispatcher's welcome"));
  for (const v1::WorkerRef& worker : welcome.workers()) workers_.Learn(FromProto(worker));
  report_stale_ = true;
  reported_ = now + -kReportApart;
  if (admission_) {
    if (*fingerprint != admission_->fingerprint) {
      End(FailedPrecondition(fmt::format(
          "job {} is now of plan {}, and this session of plan {}: resume it from its cursor",
          options_.hello.job(), fingerprint->ToString(), admission_->fingerprint.ToString())));
    }
    return;
  }
  const StepOptions spec = millrace::FromProto(welcome.spec().steps());
  const Result<StepArithmetic> steps = StepArithmetic::Create(spec);
  if (!steps.ok()) return End(steps.status().WithContext("the dispatcher's welcome"));
  const Position start = FromProto(welcome.start());
  if (spec.world_size != options_.hello.world_size() || steps->StepsFrom(start.example) == 0) {
    return End(Internal(fmt::format(
        "the dispatcher's welcome is for a world size of {} from {}, expected {} and a step there",
        spec.world_size, start.ToString(), options_.hello.world_size())));
  }
  const std::uint64_t epochs = options_.hello.epochs();
  steps_.emplace(*steps, options_.hello.rank(), start,
                 epochs == 0 ? RankSteps::kNoEnd : options_.hello.start().epoch() + epochs);
  if (IsMutant(Mutant::kPositionOffByOne)) ++next_;
  stats_.drop_reasons = DropReasonsOf(welcome.spec());
  admission_ = Admission{*fingerprint, start, welcome.spec(), welcome.static_digest()};
}

void SessionMachine::OnLeases(const v1::AttachResponse& message) {
  const Number seen = last_lease_;
  for (const v1::Lease& proto : message.leases()) {
    const Lease lease = FromProto(proto);
    last_lease_ = std::max(last_lease_, lease.id);
    report_stale_ = true;
    if (lease.id <= seen || leases_.Has(lease.id)) continue;
    if (const Status status = steps_->Check(lease.shard); !status.ok()) {
      logger_->Warning("bad lease", {{"lease", lease.id.ToString()}, {"why", status}});
      continue;
    }
    // Not held, and so over, as the next report says.
    if (leases_.all().size() >= kMaxHeldLeases) continue;
    WorkerLink& link = workers_.Learn(lease.worker);
    // One that drains builds nothing that it was not told before: the next report lets go of it.
    link.drains = link.stream.going_away;
    if (link.drains) continue;
    leases_.Add(lease, steps_->Index(lease.shard.at));
    waiting_why_.clear();
    waiting_why_said_.clear();
    self_leasing_ = false;
    uncovered_since_.reset();
    link.stream.stale = link.stream.urgent = true;
  }
}

// --- the loop ---------------------------------------------------------------------------------

void SessionMachine::OnTaken(Time now) {
  Enter(now);
  const auto it = held_.find(next_);
  const Held& held = it->second;
  ++stats_.batches;
  stats_.examples += held.examples;
  stats_.bytes += held.bytes;
  stats_.in_place += held.in_place ? 1 : 0;
  for (const DropReason reason : held.dropped) {
    ++stats_.dropped[std::min<std::size_t>(static_cast<std::size_t>(reason), kDropReasons - 1)];
  }
  held_bytes_ -= held.bytes;
  past_.push_back({next_, held.digest, held.worker});
  if (past_.size() > kPastKept) past_.pop_front();
  held_.erase(it);
  ++next_;
  workers_.ForgetRefusals(next_);
  waiting_since_ = now;
  report_stale_ = grants_stale_ = true;
  MarkStale(false);
  Settle(now);
}

void SessionMachine::SetWaiting(bool waiting, Time now) {
  Enter(now);
  if (waiting && !waiting_) waiting_since_ = now;
  waiting_ = waiting;
  Settle(now);
}

void SessionMachine::SetLoopHolds(std::uint64_t batches, Time now) {
  Enter(now);
  const std::uint64_t window_before = window();
  loop_holds_ = batches;
  if (window() != window_before) {
    grants_stale_ = true;
    MarkStale(false);
  }
  Settle(now);
}

// --- time -------------------------------------------------------------------------------------

void SessionMachine::Tick(Time now) {
  Enter(now);
  grants_due_ = true;
  Settle(now);
}

void SessionMachine::CheckTimes(Time now) {
  if (!status_.ok()) return;
  if (!admission_ && highest_term_ == 0 && now - started_ >= options_.connect_timeout) {
    return End(Unavailable(
        fmt::format("no answer from a dispatcher at {} for {:.0f} s{}{}: is one "
                    "running that leads, and is this the address of its control port?",
                    options_.address, ToSeconds(options_.connect_timeout),
                    last_attach_error_.ok() ? "" : ": ", last_attach_error_.message())));
  }
  if (!admission_ && options_.attach_timeout > Duration{0} &&
      now - started_ >= options_.attach_timeout) {
    return End(DeadlineExceeded(
        fmt::format("not attached to job {} at {} after {:.0f} s: {}", options_.hello.job(),
                    options_.address, ToSeconds(options_.attach_timeout),
                    !waiting_why_.empty() ? waiting_why_ : last_attach_error_.message())));
  }
  // What is over within a second is no news.
  if (!waiting_why_.empty() && now - waiting_why_since_ >= kReportEvery) {
    const LogLevel level =
        now - waiting_began_ >= kWarnAfter ? LogLevel::kWarning : LogLevel::kInfo;
    if (waiting_why_ != waiting_why_said_ || level != waiting_said_at_) {
      waiting_why_said_ = waiting_why_;
      waiting_said_at_ = level;
      logger_->Log(level, admission_ ? "waiting for a worker" : "waiting to attach",
                   {{"job", options_.hello.job()}, {"why", waiting_why_}});
    }
  }
  const bool away = attach_.failures > 0 && !attach_.heard_any;
  if (away && !attach_.lost_long && now - attach_.lost >= kWarnAfter) {
    attach_.lost_long = true;
    logger_->Warning("no answer from the dispatcher: trying again and again",
                     {{"address", options_.address}, {"why", last_attach_error_}});
  }
  if (attach_.stream == 0) {
    if (now >= attach_.retry_at) Connect(now);
  } else if (now - attach_.heard >= kSilence) {
    const Status why = Unavailable(fmt::format("the dispatcher at {} was silent for {:.0f} s",
                                               address(), ToSeconds(kSilence)));
    actions_.push_back(CloseStream{attach_.stream, why});
    Disconnect(why, now);
  }
  workers_.ForgetDead(
      [this](const WorkerLink& link) {
        const auto& leases = leases_.all();
        return std::any_of(leases.begin(), leases.end(), [&](const auto& held) {
          return held.second.lease.worker.id == link.where.id;
        });
      },
      now);
  for (auto& [id, link] : workers_.all()) {
    if (link.stream.id == 0) continue;
    if (link.stream.owes() && now - link.stream.heard >= kSilence &&
        !IsMutant(Mutant::kSilentWorkerTrusted)) {
      FailSilent(link,
                 fmt::format("silent for {:.0f} s while batches were due", ToSeconds(kSilence)),
                 now);
    } else if (!link.stream.owes() && now - link.stream.unused_since >= kCloseUnused) {
      actions_.push_back(CloseStream{link.stream.id, OkStatus()});
      workers_.Closed(link);
      grants_due_ = true;
    } else if (link.stream.owed > 0 && now - link.stream.told >= kWantsEvery) {
      link.stream.stale = true;
    }
  }
}

Time SessionMachine::NextTick() const {
  Time due = now_ + kReportEvery;
  // What is due already was looked at by the event before; it waits for a write or a word.
  const auto at = [&](Time t) {
    if (t > now_) due = std::min(due, t);
  };
  if (!status_.ok()) return due;
  at(attach_.stream == 0 ? attach_.retry_at : attach_.heard + kSilence);
  if (report_stale_) at(reported_ + kReportApart);
  if (grants_stale_) at(granted_ + kGrantsApart);
  if (uncovered_since_) {
    at(self_leasing_ ? self_leased_ + kSelfLeasesApart
                     : std::min(*uncovered_since_, dispatcher_heard_) + kSilence);
  }
  if (!admission_) {
    at(started_ + options_.connect_timeout);
    at(started_ + options_.attach_timeout);
  }
  for (const auto& [id, link] : workers_.all()) {
    if (link.stream.id == 0) continue;
    if (link.stream.owes()) at(link.stream.heard + kSilence);
    if (link.stream.owed > 0) at(link.stream.told + kWantsEvery);
    if (link.stream.stale) at(link.stream.told + WantsApart(link));
  }
  return due;
}

std::vector<Action> SessionMachine::TakeActions() { return std::exchange(actions_, {}); }

}  // namespace millrace::client
