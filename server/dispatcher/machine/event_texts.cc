#include "server/dispatcher/machine/event_texts.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "common/transport/convert/tuning.h"

namespace millrace {
namespace {

constexpr std::string_view kTrying = "trying";

/// Adds the decisions that `now` knows the outcome of, and `before` did not.
void AddJudged(const v1::Tuning& before, const v1::Tuning& now, const NewEvent& of,
               std::vector<NewEvent>& events) {
  for (const v1::TuneDecision& decision : now.decisions()) {
    if (decision.outcome() == kTrying) continue;
    const bool known = std::any_of(
        before.decisions().begin(), before.decisions().end(), [&](const v1::TuneDecision& earlier) {
          return earlier.number() == decision.number() && earlier.outcome() != kTrying;
        });
    if (known) continue;
    NewEvent& event = events.emplace_back(of);
    event.text = fmt::format("{}: {}", of.text, TuneLine(decision));
  }
}

bool HasFailed(const v1::WorkRequest& report, const std::string& plan) {
  return std::any_of(report.plans().begin(), report.plans().end(), [&](const v1::PlanState& state) {
    return state.phase() == v1::FAILED && state.fingerprint() == plan;
  });
}

}  // namespace

std::string WorkerSubject(const v1::WorkRequest& worker) {
  return fmt::format("Worker {} at {}", worker.name(), worker.self().address());
}

std::string ConsumerSubject(const v1::Hello& hello) {
  std::string subject = RankOfJob(hello);
  subject[0] = 'R';
  return hello.where().empty() ? subject : fmt::format("{} at {}", subject, hello.where());
}

std::vector<NewEvent> EventsOf(const Worker& worker, const v1::WorkRequest& report) {
  std::vector<NewEvent> events;
  if (report.draining() && !worker.draining()) {
    events.push_back({.kind = EventKind::kWorkerDraining,
                      .text = WorkerSubject(report) + " drains: it takes no more steps",
                      .peer = report.name()});
  }
  if (!report.draining() && worker.report.draining()) {
    events.push_back({.kind = EventKind::kWorkerUndrained,
                      .text = WorkerSubject(report) + " drains no more: it takes steps again",
                      .peer = report.name()});
  }
  for (const auto& [id, dataset] : report.datasets()) {
    if (dataset.error().empty()) continue;
    const auto before = worker.report.datasets().find(id);
    if (before != worker.report.datasets().end() && before->second.error() == dataset.error()) {
      continue;
    }
    events.push_back({.kind = EventKind::kDatasetFailed,
                      .text = fmt::format("{} cannot serve all of dataset {}: {}",
                                          WorkerSubject(report), id, dataset.error()),
                      .peer = report.name()});
  }
  for (const v1::PlanState& plan : report.plans()) {
    if (plan.phase() != v1::FAILED || HasFailed(worker.report, plan.fingerprint())) continue;
    events.push_back({.kind = EventKind::kPlanFailed,
                      .text = fmt::format("{} cannot build batches of plan {}: {}",
                                          WorkerSubject(report), plan.fingerprint(), plan.error()),
                      .peer = report.name()});
  }
  // The first tuning on a dispatcher has decisions that an earlier one was told of.
  if (report.has_tuning() && worker.tuning_told != Time{}) {
    AddJudged(worker.tuning, report.tuning(),
              {.kind = EventKind::kTuning, .text = WorkerSubject(report), .peer = report.name()},
              events);
  }
  return events;
}

std::vector<NewEvent> MovedSteps(const SessionFacts& session, const v1::Report& report,
                                 const std::map<WorkerId, Worker>& workers) {
  if (!session.report) return {};  // an earlier dispatcher may have been told the same
  const v1::Counters& before = session.report->counters();
  const v1::Counters& now = report.counters();
  const auto more = [](std::uint64_t was, std::uint64_t is) { return is > was ? is - was : 0; };
  const std::uint64_t failed = more(before.moved_failed(), now.moved_failed());
  const std::uint64_t refused = more(before.moved_refused(), now.moved_refused());
  const std::uint64_t drained = more(before.moved_drained(), now.moved_drained());
  if (failed + refused + drained == 0) return {};

  std::vector<std::string> names;
  std::string reason;
  for (const v1::Failing& failing : report.failing()) {
    const WorkerId id(FromProto(failing.worker()));
    const auto known = session.failing.find(id);
    const bool again = known == session.failing.end() ||
                       failing.remaining_seconds() > known->second.remaining_seconds;
    if (!again) continue;
    const auto worker = workers.find(id);
    names.push_back(worker == workers.end() ? id.ToString() : worker->second.report.name());
    if (reason.empty()) reason = failing.reason();
  }
  std::string from = "workers";
  if (!names.empty()) {
    from = fmt::format("worker{} {}", names.size() == 1 ? "" : "s", fmt::join(names, ", "));
  } else if (failed + refused == 0) {
    from = "workers that drain";
  }
  NewEvent event{.kind = EventKind::kStepsMoved,
                 .job = session.hello.job(),
                 .peer = names.size() == 1 ? names.front() : ""};
  event.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      failed + refused + drained, std::numeric_limits<std::uint32_t>::max()));
  event.text = fmt::format("{} took back {} step{} of {}, which others build now{}",
                           ConsumerSubject(session.hello), event.count, event.count == 1 ? "" : "s",
                           from, reason.empty() ? "" : ": " + reason);
  return {std::move(event)};
}

std::vector<NewEvent> EventsOf(const SessionFacts& session, const v1::Report& report) {
  std::vector<NewEvent> events;
  if (!session.report) return events;  // an earlier dispatcher may have been told the same
  const std::uint64_t differed = report.counters().duplicate_mismatches();
  const std::uint64_t before = session.report->counters().duplicate_mismatches();
  const std::string& job = session.hello.job();
  const std::string& where = session.hello.where();
  if (differed > before) {
    events.push_back(
        {.kind = EventKind::kBatchesDiffer,
         .text = ConsumerSubject(session.hello) +
                 " got a batch from two workers, and the bytes differed: its log names the batch",
         .job = job,
         .peer = where,
         .count = static_cast<std::uint32_t>(std::min<std::uint64_t>(
             differed - before, std::numeric_limits<std::uint32_t>::max()))});
  }
  if (report.has_tuning() && session.tuning_told != Time{}) {
    AddJudged(session.tuning, report.tuning(),
              {.kind = EventKind::kTuning,
               .text = ConsumerSubject(session.hello),
               .job = job,
               .peer = where},
              events);
  }
  return events;
}

}  // namespace millrace
