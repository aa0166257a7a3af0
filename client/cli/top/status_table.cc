#include "client/cli/top/status_table.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/core.h>

#include "client/cli/text_table.h"
#include "client/cli/top/event_text.h"
#include "client/cli/top/top_rows.h"
#include "client/cli/top/tuning_text.h"
#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/places.h"
#include "common/transport/convert/wait_causes.h"

namespace millrace::cli {
namespace {

std::string Megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }

std::string Section(const std::string& title, const TextTable& table) {
  if (table.size() == 0) return title + "\n  none\n";
  std::string text = title + "\n";
  for (const std::string& line : table.Lines()) text += "  " + line + "\n";
  return text;
}

std::string Short(const std::string& digest) { return digest.substr(0, 12); }

/// Adds a number of a reason: "3 too_large, 1 excluded".
void AddCount(std::uint64_t count, const std::string& reason, std::string& text) {
  text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, reason);
}

std::string Dropped(const v1::JobStatus& job) {
  std::string text;
  for (const v1::DroppedCount& dropped : job.dropped()) {
    AddCount(dropped.examples(), NameOf(dropped, {}), text);
  }
  return text.empty() ? "0" : text;
}

std::string PiecesLost(const v1::JobStatus& job) {
  std::string text;
  for (const v1::LostPieces& lost : job.pieces_lost()) {
    AddCount(lost.pieces(), NameOf(lost, {}), text);
  }
  return text.empty() ? "0" : text;
}

/// The files that datasets leave out. Empty if no dataset leaves out any.
std::string LeftOutTable(const v1::ServiceStatus& status) {
  TextTable files({"DATASET", "FILE", "WHY"});
  for (const auto& [id, dataset] : DatasetsById(status)) {
    for (const v1::LeftOutFile& file : dataset->left_out()) {
      files.Add({std::string(id), file.name(), file.reason()});
    }
    const auto shown = static_cast<std::uint64_t>(dataset->left_out_size());
    if (dataset->left_out_files() > shown) {
      files.Add(
          {std::string(id), fmt::format("and {} more", dataset->left_out_files() - shown), ""});
    }
  }
  return files.size() == 0 ? "" : Section("files left out", files);
}

/// The branches of jobs' mixes. Empty if no job has a mix.
std::string BranchesTable(const v1::ServiceStatus& status) {
  TextTable branches({"JOB", "BRANCH", "DATASET", "EXAMPLES", "PASSES"});
  for (const v1::JobStatus& job : status.jobs()) {
    for (const v1::BranchStatus& branch : job.branches()) {
      branches.Add({job.name(), branch.name(), branch.dataset(),
                    fmt::format("{}", branch.examples()), fmt::format("{:.3f}", branch.passes())});
    }
  }
  return branches.size() == 0 ? "" : Section("branches", branches);
}

/// How many workers jobs need, and why. Empty if that is not known of any job.
std::string DesiredTable(const v1::ServiceStatus& status) {
  TextTable desired({"JOB", "WORKERS", "ARITHMETIC"});
  const auto add = [&](const std::string& name, const v1::DesiredWorkers& figure) {
    desired.Add({name, WorkersText(figure), figure.arithmetic()});
  };
  for (const v1::JobStatus& job : status.jobs()) {
    if (job.has_desired_workers()) add(job.name(), job.desired_workers());
  }
  if (desired.size() == 0) return "";
  if (status.has_desired_workers()) add("(all jobs)", status.desired_workers());
  return Section("desired workers", desired);
}

/// The caches of workers. Empty if no pipeline has a cache.
std::string CacheTable(const v1::ServiceStatus& status) {
  TextTable caches({"WORKER", "LEVEL", "HITS", "BUILDS", "BYTES", "EVICTIONS", "FAILURES"});
  const auto size = [](std::uint64_t bytes, std::uint64_t limit) {
    return fmt::format("{} of {}", Megabytes(static_cast<double>(bytes)),
                       Megabytes(static_cast<double>(limit)));
  };
  for (const v1::WorkerStatus& worker : status.workers()) {
    const v1::CacheUse& cache = worker.cache();
    if (cache.memory_hits() + cache.disk_hits() + cache.builds() == 0) continue;
    caches.Add({worker.name(), "memory", fmt::format("{}", cache.memory_hits()),
                fmt::format("{}", cache.builds()),
                size(cache.memory_bytes(), cache.memory_limit_bytes()),
                fmt::format("{}", cache.memory_evictions()), "-"});
    if (cache.disk_limit_bytes() == 0) continue;
    caches.Add({worker.name(), "disk", fmt::format("{}", cache.disk_hits()), "-",
                size(cache.disk_bytes(), cache.disk_limit_bytes()),
                fmt::format("{}", cache.disk_evictions()),
                fmt::format("{}", cache.disk_failures())});
  }
  return caches.size() == 0 ? "" : Section("caches of examples", caches);
}

/// The processes of plugins. Empty if no worker has any.
std::string PluginTable(const v1::ServiceStatus& status) {
  TextTable plugins({"WORKER", "PLUGIN", "NUMBER", "PROCESS", "RESTARTS", "MEMORY", "BUSY",
                     "EXAMPLES", "DROPPED", "FAILED"});
  for (const v1::WorkerStatus& worker : status.workers()) {
    for (const v1::PluginUse& use : worker.plugins()) {
      for (int i = 0; i < use.processes_size(); ++i) {
        const v1::PluginProcess& process = use.processes(i);
        plugins.Add({worker.name(), use.object(), fmt::format("{}", i),
                     process.process() == 0 ? "-" : fmt::format("{}", process.process()),
                     fmt::format("{}", process.restarts()),
                     Megabytes(static_cast<double>(process.memory_bytes())),
                     fmt::format("{:.1f} s", process.busy_seconds()),
                     fmt::format("{}", process.examples()), fmt::format("{}", process.dropped()),
                     fmt::format("{}", process.failed())});
      }
    }
  }
  return plugins.size() == 0 ? "" : Section("processes of plugins", plugins);
}

/// The last events. Empty if the dispatcher's version tells none.
std::string EventsTable(const v1::ServiceStatus& status) {
  TextTable events({"AGO", "EVENT"});
  for (const v1::Event* event : LastEvents(status)) {
    events.Add({Period(event->age_seconds()), Printable(event->text())});
  }
  return events.size() == 0 ? "" : Section("events, the last ones", events);
}

/// The last decisions of tuning. Empty if there are none.
std::string TuningTable(const v1::ServiceStatus& status) {
  constexpr std::size_t kMost = 8;
  TextTable tuning({"AGO", "WHO", "DECISION"});
  for (const TuneEvent& event : TuneEvents(status)) {
    if (tuning.size() == kMost) break;
    tuning.Add({Period(event.age_seconds), event.who, event.decision});
  }
  return tuning.size() == 0 ? "" : Section("tuning, the last decisions", tuning);
}

std::string WaitText(const v1::Wait& wait) {
  const WaitCause cause = FromProto(wait.cause());
  if (cause == WaitCause::kNone) return "-";
  std::string text(WaitCauseName(cause));
  if (!wait.stage().empty()) text += " " + wait.stage();
  if (!wait.worker_address().empty()) text += " at " + wait.worker_address();
  return text + fmt::format(" for {:.1f} s", wait.since_seconds());
}

/// Consumers whose batches came in fewer bytes than they have. Empty if there are none.
std::string WireTable(const v1::ServiceStatus& status) {
  TextTable wire({"JOB", "RANK", "BATCHES", "CAME IN", "RATIO"});
  for (const v1::ConsumerStatus& consumer : status.consumers()) {
    const auto bytes = static_cast<double>(consumer.counters().bytes());
    const auto came = static_cast<double>(consumer.counters().wire_bytes());
    if (came == 0 || came >= bytes) continue;
    wire.Add({consumer.job(), RankText(consumer), Megabytes(bytes), Megabytes(came),
              fmt::format("{:.1f} x", bytes / came)});
  }
  return wire.size() == 0 ? std::string() : Section("over the network", wire);
}

std::string GrantsTable(const v1::ServiceStatus& status) {
  TextTable grants({"JOB", "RANK", "WINDOW", "CREDIT"});
  for (const v1::ConsumerStatus& consumer : status.consumers()) {
    const bool known = consumer.has_grants();
    const v1::Grants& granted = consumer.grants();
    grants.Add({consumer.job(), RankText(consumer),
                known ? fmt::format("{}", granted.window()) : "-",
                known ? Megabytes(static_cast<double>(granted.credit_bytes())) : "-"});
  }
  return Section("what consumers grant", grants);
}

std::string FailingTable(const v1::ServiceStatus& status) {
  std::map<WorkerId, std::string> names;
  for (const v1::WorkerStatus& worker : status.workers()) {
    if (!worker.name().empty()) names[WorkerId(FromProto(worker.id()))] = worker.name();
  }
  TextTable failing({"JOB", "RANK", "WORKER", "AVOIDED FOR", "WHY"});
  for (const v1::ConsumerStatus& consumer : status.consumers()) {
    for (const v1::Failing& worker : consumer.failing()) {
      const WorkerId id(FromProto(worker.worker()));
      const auto name = names.find(id);
      failing.Add({consumer.job(), RankText(consumer),
                   name != names.end() ? name->second : id.ToString(),
                   worker.code() != 0 ? "refused steps"
                                      : fmt::format("{:.1f} s", worker.remaining_seconds()),
                   worker.reason()});
    }
  }
  return Section("workers that consumers avoid", failing);
}

}  // namespace

std::string DatasetStateText(const v1::DatasetState& dataset) {
  if (!dataset.error().empty()) return dataset.error();
  if (dataset.digest().empty()) return fmt::format("indexing {:.0f} %", 100 * dataset.verifying());
  std::string text = "ready";
  if (dataset.left_out_files() > 0) {
    text += fmt::format(", {} files left out", dataset.left_out_files());
  }
  if (dataset.unverified() > 0) {
    // Rounded up, because 0 % would look as if nothing were left.
    text += fmt::format(", {:.0f} % unverified", std::ceil(100 * dataset.unverified()));
  }
  if (dataset.in_memory_bytes() > 0) {
    text +=
        fmt::format(", {:.1f} GB in memory", static_cast<double>(dataset.in_memory_bytes()) / 1e9);
  }
  return text;
}

std::string WorkersText(const v1::DesiredWorkers& figure) {
  return fmt::format("{}/{}", figure.present(), figure.workers());
}

std::string JobStateText(const v1::JobStatus& job) {
  if (job.state() != "ended" || job.outcome().empty()) return job.state();
  return job.outcome() == "stopped" ? "ended by " + Printable(job.ended_by()) : job.outcome();
}

std::string JobWhyText(const v1::JobStatus& job) {
  return Printable(job.error().empty() ? job.why() : job.error());
}

std::uint64_t EpochOf(const v1::JobStatus& job) {
  const std::uint64_t next = job.next().epoch();
  return job.state() == "ended" && job.progress() == 1 && next > 0 ? next - 1 : next;
}

bool HaveTokens(const v1::ServiceStatus& status) {
  return std::any_of(status.jobs().begin(), status.jobs().end(),
                     [](const v1::JobStatus& job) { return job.tokens() > 0; });
}

std::string JobsTable(const v1::ServiceStatus& status) {
  constexpr const char* kLost = "LOST PIECES";
  TextTable table({"NAME", "STATE", "WORLD", "EPOCH", "STEP", "PROGRESS", "ETA", "BATCHES/S",
                   "EXAMPLES/S", kTokensHeading, "MB/S", "DROPPED", kLost, "PLAN", "WHY"});
  bool any_lost = false;
  for (const v1::JobStatus& job : status.jobs()) {
    table.Add({job.name(), JobStateText(job), fmt::format("{}", job.world_size()),
               fmt::format("{}", EpochOf(job)),
               fmt::format("{}/{}", job.step(), job.steps_per_epoch()),
               fmt::format("{:.1f} %", 100 * job.progress()),
               job.eta_seconds() > 0 ? Period(job.eta_seconds()) : "-",
               fmt::format("{:.1f}", job.batches_per_second()),
               fmt::format("{:.0f}", job.examples_per_second()),
               job.tokens() > 0 ? fmt::format("{:.0f}", job.tokens_per_second()) : "-",
               fmt::format("{:.1f}", job.bytes_per_second() / 1e6), Dropped(job), PiecesLost(job),
               Short(job.fingerprint()), JobWhyText(job)});
    any_lost = any_lost || job.pieces_lost_size() > 0;
  }
  if (!HaveTokens(status)) table.TakeAway(kTokensHeading);
  if (!any_lost) table.TakeAway(kLost);
  return Section("jobs", table) + DesiredTable(status) + BranchesTable(status);
}

std::map<std::string_view, const v1::DatasetState*> DatasetsById(const v1::ServiceStatus& status) {
  std::map<std::string_view, const v1::DatasetState*> datasets;
  for (const auto& [id, dataset] : status.datasets()) datasets.emplace(id, &dataset);
  return datasets;
}

/// "until 2026-11-27, 12 days", by UTC.
std::string CertificateText(std::int64_t ends_unix_seconds) {
  constexpr std::int64_t kDay = 86'400;
  const std::int64_t left = ends_unix_seconds - std::time(nullptr);
  const std::string day =
      fmt::format("{:%Y-%m-%d}", fmt::gmtime(static_cast<std::time_t>(ends_unix_seconds)));
  if (left <= 0) return "ended " + day;
  return fmt::format("until {}, {} day{}", day, left / kDay, left / kDay == 1 ? "" : "s");
}

/// How ports are protected, and what they have refused. Empty if there is no TLS and nothing was
/// refused.
std::string PortsTable(const v1::ServiceStatus& status) {
  TextTable ports({"PORT", "TLS", "REFUSED CONNECTIONS", "REFUSED CALLS"});
  const auto counts = [](const google::protobuf::Map<std::string, std::uint64_t>& map) {
    std::string text;
    for (const auto& [reason, count] : std::map(map.begin(), map.end())) {
      if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, reason);
    }
    return text;
  };
  const auto add = [&](const std::string& port, const v1::PortSecurity& security) {
    const std::string connections = counts(security.refused_connections());
    const std::string calls = counts(security.refused_calls());
    if (!security.tls() && connections.empty() && calls.empty()) return;
    ports.Add({port,
               security.tls() ? CertificateText(security.certificate_ends_unix_seconds()) : "no",
               connections.empty() ? "0" : connections, calls.empty() ? "0" : calls});
  };
  add("control", status.security());
  for (const v1::WorkerStatus& worker : status.workers()) {
    add("batches of " + worker.name(), worker.security());
  }
  return ports.size() == 0 ? "" : Section("ports", ports);
}

std::string StatusTable(const v1::ServiceStatus& status) {
  std::string text = fmt::format("millrace {} at {}, up {}, term {}\n", status.version(),
                                 status.address(), Period(status.uptime_seconds()), status.term());
  if (!status.store_error().empty()) {
    text += fmt::format("the store fails, no job can begin: {}\n", status.store_error());
  }

  TextTable datasets({"DATASET", "KIND", "FILES", "EXAMPLES", "DIGEST", "STATE"});
  for (const auto& [id, dataset] : DatasetsById(status)) {
    datasets.Add({std::string(id), dataset->kind().empty() ? "-" : dataset->kind(),
                  fmt::format("{}", dataset->files()), fmt::format("{}", dataset->examples()),
                  Short(dataset->digest()), DatasetStateText(*dataset)});
  }
  text += Section("datasets", datasets) + LeftOutTable(status) + JobsTable(status);

  TextTable workers({"WORKER", "ADDRESS", "STATE", "THREADS", "SLOTS", "IDLE", "QUEUE", "BUFFERED",
                     "STREAMS", "SEND BLOCKED", "BUILD (MEAN)", "WHY"});
  for (const v1::WorkerStatus& worker : status.workers()) {
    if (worker.name().empty()) {  // a trainer may see no more of it
      workers.Add({"-", "-", worker.state(), fmt::format("{}", worker.threads()), "-", "-", "-",
                   "-", "-", "-", "-", "-"});
      continue;
    }
    std::string build;
    for (const v1::StageSeconds& stage : worker.build()) {
      if (stage.count() == 0) continue;
      if (!build.empty()) build += ", ";
      build += fmt::format("{} {:.1f} ms", stage.stage(),
                           1e3 * stage.seconds() / static_cast<double>(stage.count()));
    }
    workers.Add({worker.name(), worker.address(), worker.state(),
                 fmt::format("{}", worker.threads()), fmt::format("{}", worker.slots()),
                 worker.idle().empty() ? "-" : worker.idle(),
                 fmt::format("{:.2f} s", worker.queue_seconds()),
                 fmt::format("{} of {}", Megabytes(static_cast<double>(worker.buffered_bytes())),
                             Megabytes(static_cast<double>(worker.memory_limit_bytes()))),
                 fmt::format("{}", worker.streams()),
                 fmt::format("{:.1f} s", worker.send_blocked_seconds()), build, worker.why()});
  }
  text += Section("workers", workers) + PluginTable(status) + CacheTable(status);

  TextTable consumers({"JOB", "RANK", "WHERE", "STATE", "EPOCH", "STEP", "BUFFERED", "LIST",
                       "ASKED", "BUILT", "DUE", "WAITED", "LAST MINUTE", "WAITS FOR", "WHY"});
  for (const v1::ConsumerStatus& consumer : status.consumers()) {
    consumers.Add({consumer.job(), RankText(consumer), consumer.where(), consumer.state(),
                   fmt::format("{}", consumer.next().epoch()), fmt::format("{}", consumer.step()),
                   fmt::format("{}, {}", consumer.buffered_batches(),
                               Megabytes(static_cast<double>(consumer.buffered_bytes()))),
                   ListText(consumer), fmt::format("{}", consumer.asked()),
                   fmt::format("{}", consumer.built()), DueText(consumer),
                   fmt::format("{:.1f} s", consumer.waited_seconds()),
                   fmt::format("{:.1f} s", consumer.waited_last_minute_seconds()),
                   WaitText(consumer.now()), consumer.why()});
  }
  return text + Section("consumers", consumers) + WireTable(status) + EventsTable(status) +
         TuningTable(status) + PortsTable(status);
}

std::string DetailedStatusTable(const v1::ServiceStatus& status) {
  return StatusTable(status) + GrantsTable(status) + FailingTable(status);
}

}  // namespace millrace::cli
