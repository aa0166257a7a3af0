#include "client/session/machine/attach.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/base/addresses.h"
#include "common/base/mutant.h"
#include "common/transport/convert/steps.h"

namespace millrace::client {
namespace {

// A session waits before it connects again. The pause is random, in seconds: at least
// kShortestRetry, and less than a bound that begins at kFirstRetry and doubles until the pauses of
// a round through all addresses may take kLongestRound. So the consumers of a dispatcher that comes
// back do not all connect at once, and yet all of them are back within 3 s.
constexpr double kShortestRetry = 0.1;
constexpr double kFirstRetry = 1;
constexpr double kLongestRound = 2.5;
// A stream counts as a failure too if it lasted less than this many times the pause before it. So a
// session spends at most about a tenth of its time on reconnecting.
constexpr int kRetryBudget = 10;

/// Whether a stream that ends with this code ends the session, since trying again cannot help.
bool EndsSession(StatusCode code, bool admitted) {
  switch (code) {
    case StatusCode::kAborted:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kInvalidArgument:
    case StatusCode::kDataLoss:
      return true;
    // A running session survives these codes. At first contact they mean that something was set up
    // wrongly.
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

Attach::Attach(SessionContext& context, std::function<double()> random)
    : context_(context),
      addresses_(SplitAddresses(context.options.address)),
      random_(std::move(random)) {}

void Attach::Start(Time now) {
  started_ = now;
  Connect(std::nullopt, now);
}

void Attach::StoodStill(Duration more) {
  attach_.heard = attach_.heard + more;
  dispatcher_heard_ = dispatcher_heard_ + more;
}

void Attach::Connect(std::optional<v1::Report> report, Time now) {
  attach_.stream = context_.actions.NewStream();
  attach_.heard = attach_.opened = now;
  attach_.heard_any = attach_.bye_sent = false;
  attach_.writing = true;
  reported_ = now;
  v1::AttachRequest message;
  *message.mutable_hello() = context_.options.hello;
  message.mutable_hello()->set_highest_term(highest_term_);
  message.mutable_hello()->set_admitted(admission_.has_value());
  if (session_.is_set()) ToProto(session_, message.mutable_hello()->mutable_session());
  if (report) *message.mutable_report() = *std::move(report);
  context_.actions.Put(OpenAttach{attach_.stream, address()});
  context_.actions.Put(SendAttach{attach_.stream, std::move(message)});
}

void Attach::Disconnect(const Status& why, Time now) {
  last_attach_error_ = why;
  attach_.stream = 0;
  attach_.writing = attach_.heard_any = false;
  // The pause becomes longer only after all addresses were tried.
  const int rounds = attach_.failures / static_cast<int>(addresses_.size());
  const double longest = std::min(kLongestRound / static_cast<double>(addresses_.size()),
                                  kFirstRetry * static_cast<double>(1u << std::min(rounds, 6)));
  const double seconds = kShortestRetry + random_() * std::max(0.0, longest - kShortestRetry);
  attach_.pause = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  attach_.retry_at = now + attach_.pause;
  if (attach_.failures++ == 0) {
    attach_.lost = now;
    context_.logger->Info("dispatcher lost", {{"address", address()}, {"why", why}});
  }
  attach_.address = (attach_.address + 1) % addresses_.size();
}

Status Attach::OnClosed(StreamId stream, const Status& status, bool leaving, Time now) {
  if (stream == attach_.stream && stream != 0) {
    if (!leaving && EndsSession(status.code(), admission_.has_value())) {
      attach_.stream = 0;
      attach_.writing = false;
      return status.code() == StatusCode::kUnimplemented
                 ? status.WithContext(context_.options.address)
                 : status;
    }
    Disconnect(status.ok() ? Unavailable("the dispatcher closed the stream") : status, now);
  }
  return OkStatus();
}

void Attach::OnWritten(StreamId stream) {
  if (stream == attach_.stream && stream != 0) {
    attach_.writing = false;
    if (attach_.bye_sent) {
      context_.actions.Put(CloseStream{stream, OkStatus()});
      attach_.stream = 0;
    }
  }
}

bool Attach::OnMessage(StreamId stream, const v1::AttachResponse& message, Time now) {
  if (stream != attach_.stream || stream == 0) return false;
  if (message.term() < highest_term_ && !IsMutant(Mutant::kLowerTermObeyed)) {
    const Status why = Unavailable(
        fmt::format("a dispatcher at {} of term {}, after one of term {}: it no longer leads",
                    address(), message.term(), highest_term_));
    context_.actions.Put(CloseStream{stream, why});
    Disconnect(why, now);
    return false;
  }
  highest_term_ = message.term();
  attach_.heard = dispatcher_heard_ = now;
  if (!attach_.heard_any && attach_.failures > 0) {
    context_.logger->Log(attach_.lost_long ? LogLevel::kWarning : LogLevel::kInfo,
                         "dispatcher found", {{"address", address()}, {"term", message.term()}});
  }
  attach_.heard_any = true;
  if (now - attach_.opened >= attach_.pause * kRetryBudget) attach_.failures = 0;
  attach_.lost_long = false;
  if (message.has_waiting()) {
    session_ = SessionId(FromProto(message.waiting().session()));
    if (waiting_why_.empty()) waiting_began_ = now;
    if (waiting_why_ != message.waiting().why()) {
      waiting_why_ = message.waiting().why();
      waiting_why_since_ = now;
    }
  }
  return true;
}

Status Attach::OnWelcome(const v1::Welcome& welcome, Time now) {
  session_ = SessionId(FromProto(welcome.session()));
  StopWaiting();
  const Result<Fingerprint> fingerprint = Fingerprint::FromString(welcome.fingerprint());
  if (!fingerprint.ok()) return fingerprint.status().WithContext("the dispatcher's welcome");
  context_.stale.MarkReport();
  reported_ = now + -kReportApart;
  if (admission_) {
    if (*fingerprint != admission_->fingerprint) {
      return FailedPrecondition(fmt::format(
          "job {} is now of plan {}, and this session of plan {}: resume it from its cursor",
          context_.options.hello.job(), fingerprint->ToString(),
          admission_->fingerprint.ToString()));
    }
    return OkStatus();
  }
  const StepOptions spec = millrace::FromProto(welcome.spec().steps());
  const Result<StepArithmetic> steps = StepArithmetic::Create(spec);
  if (!steps.ok()) return steps.status().WithContext("the dispatcher's welcome");
  const Position start = FromProto(welcome.start());
  if (spec.world_size != context_.options.hello.world_size() ||
      steps->StepsFrom(start.example) == 0) {
    return Internal(fmt::format(
        "the dispatcher's welcome is for a world size of {} from {}, expected {} and a step there",
        spec.world_size, start.ToString(), context_.options.hello.world_size()));
  }
  const std::uint64_t epochs = context_.options.hello.epochs();
  steps_.emplace(*steps, context_.options.hello.rank(), start,
                 epochs == 0 ? RankSteps::kNoEnd : context_.options.hello.start().epoch() + epochs);
  admission_ = Admission{*fingerprint, start, welcome.spec(), welcome.static_digest()};
  return OkStatus();
}

void Attach::OnMembers() { StopWaiting(); }

void Attach::StopWaiting() {
  waiting_why_.clear();
  waiting_why_said_.clear();
}

Status Attach::CheckTimes(Time now) {
  if (!admission_ && highest_term_ == 0 && now - started_ >= context_.options.connect_timeout) {
    return Unavailable(
        fmt::format("no answer from a dispatcher at {} for {:.0f} s{}{}: is one "
                    "running that leads, and is this the address of its control port?",
                    context_.options.address, ToSeconds(context_.options.connect_timeout),
                    last_attach_error_.ok() ? "" : ": ", last_attach_error_.message()));
  }
  if (!admission_ && context_.options.attach_timeout > Duration{0} &&
      now - started_ >= context_.options.attach_timeout) {
    return DeadlineExceeded(
        fmt::format("not attached to job {} at {} after {:.0f} s: {}", context_.options.hello.job(),
                    context_.options.address, ToSeconds(context_.options.attach_timeout),
                    !waiting_why_.empty() ? waiting_why_ : last_attach_error_.message()));
  }
  // A wait that is over within a second is not worth a log line.
  if (!waiting_why_.empty() && now - waiting_why_since_ >= kReportEvery) {
    const LogLevel level =
        now - waiting_began_ >= kWarnAfter ? LogLevel::kWarning : LogLevel::kInfo;
    if (waiting_why_ != waiting_why_said_ || level != waiting_said_at_) {
      waiting_why_said_ = waiting_why_;
      waiting_said_at_ = level;
      context_.logger->Log(level, admission_ ? "waiting for a worker" : "waiting to attach",
                           {{"job", context_.options.hello.job()}, {"why", waiting_why_}});
    }
  }
  const bool away = attach_.failures > 0 && !attach_.heard_any;
  if (away && !attach_.lost_long && now - attach_.lost >= kWarnAfter) {
    attach_.lost_long = true;
    context_.logger->Warning("no answer from the dispatcher: trying again and again",
                             {{"address", context_.options.address}, {"why", last_attach_error_}});
  }
  if (attach_.stream != 0 && now - attach_.heard >= kSilence) {
    const Status why = Unavailable(fmt::format("the dispatcher at {} was silent for {:.0f} s",
                                               address(), ToSeconds(kSilence)));
    context_.actions.Put(CloseStream{attach_.stream, why});
    Disconnect(why, now);
  }
  return OkStatus();
}

bool Attach::ReportDue(bool bye, Time now) const {
  if (attach_.stream == 0 || attach_.writing || attach_.bye_sent) return false;
  if (bye) return true;
  const Duration apart = context_.stale.report() ? kReportApart : kReportEvery;
  return attach_.heard_any && now >= reported_ + apart;
}

void Attach::SendReport(bool bye, std::optional<v1::Report> report, const std::string& error,
                        Time now) {
  v1::AttachRequest message;
  if (bye) {
    message.set_bye(true);
    message.set_error(error);
    attach_.bye_sent = true;
  }
  if (report) *message.mutable_report() = *std::move(report);
  reported_ = now;
  context_.stale.Reported();
  attach_.writing = true;
  context_.actions.Put(SendAttach{attach_.stream, std::move(message)});
}

std::string Attach::Dump(Time now) const {
  const v1::Hello& hello = context_.options.hello;
  return fmt::format(
      "session {} job {} rank {} replica {} of {}\n"
      "dispatcher {} stream {} heard {:.3f} s ago writing {} reported {:.3f} s ago failures {} "
      "term {} waiting '{}'\n",
      session_.ToString(), hello.job(), hello.rank(), hello.replica(), hello.world_size(),
      address(), attach_.stream, ToSeconds(now - attach_.heard), attach_.writing,
      ToSeconds(now - reported_), attach_.failures, highest_term_, waiting_why_);
}

void Attach::AddTimes(NextDue& next) const {
  next.At(attach_.stream == 0 ? attach_.retry_at : attach_.heard + kSilence);
  if (context_.stale.report()) next.At(reported_ + kReportApart);
  if (!admission_) {
    next.At(started_ + context_.options.connect_timeout);
    next.At(started_ + context_.options.attach_timeout);
  }
}

}  // namespace millrace::client
