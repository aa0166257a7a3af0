#include "client/cli/top/top_frame.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "client/cli/text_table.h"
#include "client/cli/top/event_text.h"
#include "client/cli/top/status_table.h"
#include "client/cli/top/top_rows.h"
#include "client/cli/top/tuning_text.h"
#include "common/base/addresses.h"
#include "common/base/wait_cause.h"
#include "common/transport/convert/places.h"

namespace millrace::cli {
namespace {

std::string Amount(double value) {
  if (value >= 9.995e5) return fmt::format("{:.2f} M", value / 1e6);
  if (value >= 9.995e3) return fmt::format("{:.1f} k", value / 1e3);
  return fmt::format("{:.1f}", value);
}
std::string Amount(Rate rate) { return rate ? Amount(*rate) : "-"; }
std::string InMegabytes(double bytes) { return fmt::format("{:.1f}", bytes / 1e6); }
std::string InMegabytes(Rate rate) { return rate ? InMegabytes(*rate) : "-"; }
std::string Percent(Rate share) {
  return share ? fmt::format("{:.0f} %", 100 * std::min(*share, 1.0)) : "-";
}

/// The size of a cache of examples, in memory and, if it is there too, on disk.
std::string CacheMegabytes(const v1::CacheUse& cache) {
  std::string text = InMegabytes(static_cast<double>(cache.memory_bytes()));
  if (cache.disk_limit_bytes() > 0) {
    text += "+" + InMegabytes(static_cast<double>(cache.disk_bytes()));
  }
  return text;
}

/// A list of the frame: a heading and rows. It shows as many rows as there is room for.
struct List {
  std::vector<std::string> lines;  // the heading first
  std::vector<bool> alarms;        // one for each row
  bool wanted = true;              // shown even if it has no rows

  std::size_t rows() const { return lines.size() - 1; }
};

List DatasetList(const v1::ServiceStatus& now) {
  TextTable table({"DATASET", "KIND", "EXAMPLES", "STATE"});
  List list;
  list.wanted = false;
  for (const auto& [id, dataset] : DatasetsById(now)) {
    table.Add({Printable(id), dataset->kind().empty() ? "-" : Printable(dataset->kind()),
               fmt::format("{}", dataset->examples()), Printable(DatasetStateText(*dataset))});
    list.alarms.push_back(!dataset->error().empty());
  }
  list.lines = table.Lines();
  return list;
}

constexpr std::size_t kMostEnded = 8;  // of the jobs that are shown

List JobList(const std::vector<ConsumerRow>& consumers, const v1::ServiceStatus& now) {
  struct Total {
    Rate batches, examples, tokens, bytes;
    std::size_t waiting = 0;
  };
  std::map<std::string, Total> totals;
  const auto add = [](Rate& sum, Rate term) {
    if (term) sum = sum.value_or(0) + *term;
  };
  for (const ConsumerRow& row : consumers) {
    Total& total = totals[row.status->job()];
    if (row.cause != WaitCause::kNone) ++total.waiting;
    if (row.status->replica() != 0) continue;
    add(total.batches, row.batches);
    add(total.examples, row.examples);
    add(total.tokens, row.tokens);
    add(total.bytes, row.bytes);
  }
  TextTable table({"JOB", "STATE", "RANKS", "EPOCH", "STEP", "DONE", "LEFT", "BATCHES/S",
                   "EXAMPLES/S", kTokensHeading, "MB/S", "WAITING", "WORKERS", "WHY"});
  List list;
  std::size_t ended = 0;
  for (const auto& job : now.jobs()) {  // those that have ended come last, the newest first
    if (job.state() == "ended" && ++ended > kMostEnded) break;
    const Total& total = totals[job.name()];
    table.Add(
        {Printable(job.name()), JobStateText(job), fmt::format("{}", job.world_size()),
         fmt::format("{}", EpochOf(job)), fmt::format("{}/{}", job.step(), job.steps_per_epoch()),
         fmt::format("{:.1f} %", 100 * job.progress()),
         job.eta_seconds() > 0 ? Period(job.eta_seconds()) : "-", Amount(total.batches),
         Amount(total.examples), job.tokens() > 0 ? Amount(total.tokens) : "-",
         InMegabytes(total.bytes), fmt::format("{}", total.waiting),
         job.has_desired_workers() ? WorkersText(job.desired_workers()) : "-", JobWhyText(job)});
    list.alarms.push_back(!job.error().empty());
  }
  if (!HaveTokens(now)) table.TakeAway(kTokensHeading);
  list.lines = table.Lines();
  return list;
}

/// The branches of the mixes of jobs that have not ended.
List BranchList(const v1::ServiceStatus& now) {
  TextTable table({"BRANCH", "JOB", "DATASET", "EXAMPLES", "PASSES"});
  List list;
  list.wanted = false;
  for (const v1::JobStatus& job : now.jobs()) {
    if (job.state() == "ended") continue;
    for (const v1::BranchStatus& branch : job.branches()) {
      table.Add({Printable(branch.name()), Printable(job.name()), Printable(branch.dataset()),
                 fmt::format("{}", branch.examples()), fmt::format("{:.3f}", branch.passes())});
      list.alarms.push_back(false);
    }
  }
  list.lines = table.Lines();
  return list;
}

List WorkerList(const std::vector<WorkerRow>& rows) {
  TextTable table({"WORKER", "HOST", "STATE", "BATCHES/S", "SHARED", "MB/S", "SLOTS", "IDLE",
                   "QUEUE", "MEMORY MB", "CACHED", "CACHE MB", "BLOCKED", "WAITED FOR BY",
                   "BUILD (S/S)", "WHY"});
  List list;
  for (const WorkerRow& row : rows) {
    const v1::WorkerStatus& worker = *row.status;
    list.alarms.push_back(worker.state() == "silent");
    if (worker.name().empty()) {  // a trainer may see no more of it
      table.Add({"-", "-", worker.state(), "-", "-", "-", "-", "-", "-", "-", "-", "-", "-",
                 fmt::format("{}", row.waiters), "-", "-"});
      continue;
    }
    table.Add({Printable(worker.name()), Printable(std::string(HostOf(worker.address()))),
               worker.state(), Amount(row.batches), Percent(row.shared), InMegabytes(row.bytes),
               fmt::format("{}", worker.slots()),
               worker.idle().empty() ? "-" : Printable(worker.idle()),
               fmt::format("{:.2f} s", worker.queue_seconds()),
               fmt::format("{}/{}", InMegabytes(static_cast<double>(worker.buffered_bytes())),
                           InMegabytes(static_cast<double>(worker.memory_limit_bytes()))),
               Percent(row.cached), CacheMegabytes(worker.cache()), Percent(row.blocked),
               fmt::format("{}", row.waiters), row.build, Printable(worker.why())});
  }
  list.lines = table.Lines();
  return list;
}

/// Plugins of workers, a line an object.
List PluginList(const std::vector<PluginRow>& rows) {
  TextTable table({"PLUGIN", "WORKER", "PROCESSES", "BUSY", "EXAMPLES/S", "RESTARTS", "DROPPED",
                   "FAILED", "MEMORY MB"});
  List list;
  list.wanted = false;
  for (const PluginRow& row : rows) {
    table.Add({Printable(row.object), Printable(row.worker->name()),
               fmt::format("{} of {}", row.running, row.places), Percent(row.busy),
               Amount(row.examples), fmt::format("{}", row.restarts),
               fmt::format("{}", row.dropped), fmt::format("{}", row.failed),
               InMegabytes(static_cast<double>(row.memory_bytes))});
    list.alarms.push_back(false);
  }
  list.lines = table.Lines();
  return list;
}

/// Finds the name of a worker by its number; falls back to an address if the number is not known.
class WorkerNames {
 public:
  explicit WorkerNames(const v1::ServiceStatus& now) {
    for (const auto& worker : now.workers()) {
      if (!worker.name().empty()) names_[WorkerId(FromProto(worker.id()))] = worker.name();
    }
  }
  std::string Of(const v1::Wait& wait) const {
    const auto found = names_.find(WorkerId(FromProto(wait.worker())));
    return Printable(found != names_.end() ? found->second : wait.worker_address());
  }

 private:
  std::map<WorkerId, std::string> names_;
};

List ConsumerList(const std::vector<ConsumerRow>& rows, const WorkerNames& names) {
  TextTable table({"CONSUMER", "RANK", "STATE", "EPOCH", "STEP", "BATCHES/S", "EXAMPLES/S",
                   "BUFFERED", "MB", "LIST", "ASKED", "BUILT", "DUE", "WAITED", "WAITS NOW FOR"});
  List list;
  for (const ConsumerRow& row : rows) {
    const v1::ConsumerStatus& consumer = *row.status;
    std::string now = "-";
    if (consumer.state() == "waiting") {
      now = "attach: " + Printable(consumer.why());
    } else if (row.cause != WaitCause::kNone) {
      now = std::string(WaitCauseName(row.cause));
      if (!consumer.now().stage().empty()) now += " " + Printable(consumer.now().stage());
      if (IsForWorker(row.cause)) now += " at " + names.Of(consumer.now());
      now += fmt::format(", {:.1f} s", consumer.now().since_seconds());
    }
    table.Add({Printable(consumer.job()), RankText(consumer), consumer.state(),
               fmt::format("{}", consumer.next().epoch()), fmt::format("{}", consumer.step()),
               Amount(row.batches), Amount(row.examples),
               fmt::format("{}", consumer.buffered_batches()),
               InMegabytes(static_cast<double>(consumer.buffered_bytes())), ListText(consumer),
               fmt::format("{}", consumer.asked()), fmt::format("{}", consumer.built()),
               DueText(consumer), Percent(row.waited), now});
    list.alarms.push_back(consumer.state() == "silent" || row.cause != WaitCause::kNone);
  }
  list.lines = table.Lines();
  return list;
}

/// Formats numbers as "0, 2-5, 9".
std::string Ranges(const std::set<std::uint32_t>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const std::uint32_t first = *it;
    std::uint32_t last = first;
    while (++it != numbers.end() && *it == last + 1) last = *it;
    if (!text.empty()) text += ", ";
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::string WaitedFor(WaitCause cause, const std::string& worker, const std::string& stage) {
  switch (cause) {
    case WaitCause::kLease:
      return "a worker that may build the next batch";
    case WaitCause::kConnect:
      return "a connection to worker " + worker;
    case WaitCause::kBuild:
      return fmt::format("worker {} to build the next batch{}{}", worker, stage.empty() ? "" : ": ",
                         stage);
    case WaitCause::kPython:
      return fmt::format("a plugin at worker {} to build the next batch", worker);
    case WaitCause::kQueue:
      return fmt::format("worker {} to build what comes before", worker);
    case WaitCause::kTransfer:
      return fmt::format("a batch on its way from worker {}", worker);
    case WaitCause::kExpand:
      return "their own host to expand the batch";
    case WaitCause::kSlot:
      return "their own loop to let go of batches";
    default:
      return "the dispatcher to let them in" + (stage.empty() ? "" : ": " + stage);
  }
}

List EventList(const v1::ServiceStatus& now) {
  List list;
  list.wanted = false;
  list.lines.push_back("LAST EVENTS");
  for (const v1::Event* event : LastEvents(now)) {
    list.lines.push_back(
        fmt::format("{} ago: {}", Period(event->age_seconds()), Printable(event->text())));
    list.alarms.push_back(IsAlarm(event->kind()));
  }
  return list;
}

List TuningList(const v1::ServiceStatus& now) {
  List list;
  list.wanted = false;
  list.lines.push_back("LAST DECISIONS OF TUNING");
  for (const TuneEvent& event : TuneEvents(now)) {
    list.lines.push_back(fmt::format("{} ago, {}: {}", Period(event.age_seconds),
                                     Printable(event.who), Printable(event.decision)));
    list.alarms.push_back(false);
  }
  return list;
}

List WaitList(const std::vector<ConsumerRow>& rows, const WorkerNames& names) {
  struct Group {
    std::set<std::uint32_t> ranks;
    double longest = 0;
  };
  std::map<std::tuple<std::string, WaitCause, std::string, std::string>, Group> groups;
  for (const ConsumerRow& row : rows) {
    if (row.cause == WaitCause::kNone) continue;
    const v1::ConsumerStatus& consumer = *row.status;
    const bool attach = row.cause == WaitCause::kAttach;
    Group& group = groups[{consumer.job(), row.cause,
                           IsForWorker(row.cause) ? names.Of(consumer.now()) : std::string(),
                           attach ? consumer.why() : consumer.now().stage()}];
    group.ranks.insert(consumer.rank());
    group.longest = std::max(group.longest, consumer.now().since_seconds());
  }
  List list;
  list.wanted = false;
  list.lines.push_back("WHO WAITS FOR WHOM");
  for (const auto& [key, group] : groups) {
    const auto& [job, cause, worker, stage] = key;
    list.lines.push_back(fmt::format("{} rank{} {}: for {}, {:.1f} s", Printable(job),
                                     group.ranks.size() == 1 ? "" : "s", Ranges(group.ranks),
                                     WaitedFor(cause, worker, Printable(stage)), group.longest));
    list.alarms.push_back(false);
  }
  return list;
}

/// Divides `room` lines among the lists. No list gets more lines than it has rows; all others get
/// equally many.
std::vector<std::size_t> Share(const std::vector<List>& lists, std::size_t room) {
  std::vector<std::size_t> given(lists.size(), 0);
  for (bool more = true; more && room > 0;) {
    more = false;
    for (std::size_t i = 0; i < lists.size() && room > 0; ++i) {
      if (given[i] >= lists[i].rows()) continue;
      ++given[i];
      --room;
      more = true;
    }
  }
  return given;
}

void Append(std::vector<TopLine>& frame, const List& list, std::size_t lines) {
  using Style = TopLine::Style;
  frame.push_back({list.lines[0], Style::kHeading});
  if (list.rows() == 0) return;
  const bool cut = lines < list.rows();
  const std::size_t shown = cut ? std::max<std::size_t>(lines, 1) - 1 : lines;
  for (std::size_t i = 0; i < shown; ++i) {
    frame.push_back({list.lines[i + 1], list.alarms[i] ? Style::kAlarm : Style::kPlain});
  }
  if (cut && lines > 0) {
    frame.push_back({fmt::format("… {} more", list.rows() - shown), Style::kFaint});
  }
}

}  // namespace

std::string TopSortName(TopSort sort) {
  return sort == TopSort::kName ? "name" : sort == TopSort::kRate ? "rate" : "waited";
}

TopSort NextSort(TopSort sort) {
  return sort == TopSort::kName   ? TopSort::kRate
         : sort == TopSort::kRate ? TopSort::kWaited
                                  : TopSort::kName;
}

std::vector<TopLine> TopFrame(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                              const TopView& view) {
  const WorkerNames names(now);
  const std::vector<WorkerRow> workers = WorkerRows(before, now, view.sort);
  const std::vector<ConsumerRow> consumers = ConsumerRows(before, now, view.sort);

  using Style = TopLine::Style;
  std::vector<TopLine> frame;
  const std::string workers_text =
      now.has_desired_workers() ? ", workers " + WorkersText(now.desired_workers()) : "";
  frame.push_back({fmt::format("millrace {} at {}, up {}, term {}{}, by {}{}", now.version(),
                               now.address(), Period(now.uptime_seconds()), now.term(),
                               workers_text, TopSortName(view.sort), view.paused ? ", PAUSED" : ""),
                   Style::kTitle});
  if (!view.notice.empty()) frame.push_back({Printable(view.notice), Style::kAlarm});
  if (!now.store_error().empty()) {
    frame.push_back(
        {"the store fails, no job can begin: " + Printable(now.store_error()), Style::kAlarm});
  }

  std::vector<List> lists = {JobList(consumers, now),
                             BranchList(now),
                             DatasetList(now),
                             WorkerList(workers),
                             PluginList(PluginRows(before, now, view.sort)),
                             ConsumerList(consumers, names),
                             WaitList(consumers, names),
                             EventList(now),
                             TuningList(now)};
  std::erase_if(lists, [](const List& list) { return !list.wanted && list.rows() == 0; });
  std::size_t room = 0;
  for (const List& list : lists) room += list.rows();
  // Each list also needs a line for its heading, and a blank line before it if there is room.
  bool blanks = true;
  if (view.height > 0) {
    const std::size_t taken = frame.size() + lists.size();
    const std::size_t left = view.height > taken ? view.height - taken : 0;
    blanks = left >= 3 * lists.size();
    room = std::min(room, blanks ? left - lists.size() : left);
  }
  const std::vector<std::size_t> given = Share(lists, room);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (blanks) frame.push_back({});
    Append(frame, lists[i], given[i]);
  }
  if (view.height > 0 && frame.size() > view.height) frame.resize(view.height);
  for (TopLine& line : frame) line.text = CutTo(std::move(line.text), view.width);
  return frame;
}

bool TopHistory::MayShow(bool settled) const {
  if (before() == nullptr) return false;
  return !settled || now().uptime_seconds() - before()->uptime_seconds() >= kApartSeconds;
}

void TopHistory::Add(v1::ServiceStatus status) {
  if (!statuses_.empty() &&
      (status.term() != now().term() || status.uptime_seconds() < now().uptime_seconds())) {
    statuses_.clear();
  }
  statuses_.push_back(std::move(status));
  while (statuses_.size() > 2 &&
         now().uptime_seconds() - statuses_[1].uptime_seconds() >= kApartSeconds) {
    statuses_.pop_front();
  }
}

}  // namespace millrace::cli
