#include "client/cli/top/tuning_text.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "client/cli/text_table.h"
#include "client/cli/top/top_rows.h"
#include "common/base/wait_cause.h"
#include "common/transport/convert/tuning.h"
#include "common/transport/convert/wait_causes.h"

namespace millrace::cli {
namespace {

/// A setting's value: bytes in MB, all else as it is.
std::string ValueText(const std::string& name, double value) {
  return name.ends_with("_bytes") ? fmt::format("{:.1f} MB", value / 1e6)
                                  : fmt::format("{:.0f}", value);
}

std::string SettingLines(const v1::Tuning& tuning) {
  std::string text;
  for (const v1::TuneSetting& setting : tuning.settings()) {
    text +=
        fmt::format("    {} {}, {}\n", setting.name(), ValueText(setting.name(), setting.value()),
                    setting.pinned() ? "pinned"
                                     : "from " + ValueText(setting.name(), setting.least()) +
                                           " to " + ValueText(setting.name(), setting.most()));
  }
  return text;
}

std::string DecisionLines(const v1::Tuning& tuning) {
  std::string text;
  for (const v1::TuneDecision& decision : tuning.decisions()) {
    text += fmt::format("    {} ago  {}\n", Period(decision.age_seconds()), TuneLine(decision));
  }
  return text.empty() ? "    no decision yet\n" : text;
}

std::string WaitedLine(const v1::ConsumerStatus& consumer) {
  std::string text;
  for (const v1::WaitedSeconds& waited : consumer.waited()) {
    if (waited.seconds() < 0.05) continue;
    text += fmt::format("{}{} {:.1f} s", text.empty() ? "" : ", ",
                        WaitCauseName(FromProto(waited.cause())), waited.seconds());
  }
  return fmt::format("    waited for: {}\n", text.empty() ? "nothing" : text);
}

void AddEvents(const std::string& who, const v1::Tuning& tuning, std::vector<TuneEvent>& events) {
  for (const v1::TuneDecision& decision : tuning.decisions()) {
    events.push_back({who, decision.age_seconds(), TuneLine(decision)});
  }
}

/// The decisions for a job that nobody reads any more, from the last events of the dispatcher.
/// NotFound if it does not know the job.
Result<std::string> StoryWithoutConsumers(const v1::ServiceStatus& status, const std::string& job) {
  std::set<std::string> jobs;
  for (const v1::JobStatus& known : status.jobs()) jobs.insert(known.name());
  if (!jobs.contains(job)) {
    return NotFound(
        fmt::format("the dispatcher knows no job '{}': expected one of its jobs, which are {}", job,
                    jobs.empty() ? "none" : fmt::to_string(fmt::join(jobs, ", "))));
  }
  std::string text;
  for (const v1::Event& event : status.events()) {
    if (event.kind() != "tuning" || event.job() != job) continue;
    text += fmt::format("    {} ago  {}\n", Period(event.age_seconds()), event.text());
  }
  return "  nobody reads it now\n" +
         (text.empty() ? "    no decision among the last events\n" : text);
}

}  // namespace

std::vector<TuneEvent> TuneEvents(const v1::ServiceStatus& status) {
  std::vector<TuneEvent> events;
  for (const v1::WorkerStatus& worker : status.workers()) {
    AddEvents(worker.name(), worker.tuning(), events);
  }
  for (const v1::ConsumerStatus& consumer : status.consumers()) {
    AddEvents(fmt::format("rank {} of {}", RankText(consumer), consumer.job()), consumer.tuning(),
              events);
  }
  std::stable_sort(events.begin(), events.end(), [](const TuneEvent& a, const TuneEvent& b) {
    return a.age_seconds < b.age_seconds;
  });
  return events;
}

Result<std::string> TuneStory(const v1::ServiceStatus& status, const std::string& job) {
  std::string text;
  for (const v1::ConsumerStatus& consumer : status.consumers()) {
    if (consumer.job() != job) continue;
    text += fmt::format("  rank {}\n", RankText(consumer)) + WaitedLine(consumer) +
            SettingLines(consumer.tuning()) + DecisionLines(consumer.tuning());
  }
  if (text.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(text, StoryWithoutConsumers(status, job));
  }
  std::string workers;
  for (const v1::WorkerStatus& worker : status.workers()) {
    workers += fmt::format("  {}\n", worker.name()) + SettingLines(worker.tuning()) +
               DecisionLines(worker.tuning());
  }
  return fmt::format("job {}\n{}workers, for all jobs\n{}", job, text,
                     workers.empty() ? "  none\n" : workers);
}

}  // namespace millrace::cli
