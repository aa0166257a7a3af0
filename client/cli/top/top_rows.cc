#include "client/cli/top/top_rows.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/core.h>

#include "client/cli/text_table.h"
#include "common/transport/convert/places.h"
#include "common/transport/convert/wait_causes.h"

namespace millrace::cli {
namespace {

/// The workers and consumers of a status, by their numbers.
struct Known {
  explicit Known(const v1::ServiceStatus* status) {
    if (status == nullptr) return;
    for (const auto& worker : status->workers())
      workers[WorkerId(FromProto(worker.id()))] = &worker;
    for (const auto& consumer : status->consumers())
      consumers[SessionId(FromProto(consumer.session()))] = &consumer;
  }
  std::map<WorkerId, const v1::WorkerStatus*> workers;
  std::map<SessionId, const v1::ConsumerStatus*> consumers;
};

/// Rates of one worker or consumer: the difference between two reports, divided by the time between
/// them.
template <class Message>
class Difference {
 public:
  template <class Id>
  Difference(const std::map<Id, const Message*>& before, Id key, const Message& now) : now_(now) {
    const auto found = before.find(key);
    if (found == before.end()) return;
    before_ = found->second;
    seconds_ = now.counted_seconds() - before_->counted_seconds();
  }
  /// The rate of one cumulative figure, which `figure` reads from a message. Nothing if the figure
  /// went back: the process began anew.
  template <class Figure>
  Rate PerSecond(Figure figure) const {
    if (before_ == nullptr || seconds_ <= 0) return std::nullopt;
    const double more = static_cast<double>(figure(now_)) - static_cast<double>(figure(*before_));
    if (more < 0) return std::nullopt;
    return more / seconds_;
  }

 private:
  const Message& now_;
  const Message* before_ = nullptr;
  double seconds_ = 0;
};

/// Seconds a second of each stage of builds. If there are many stages, the smaller ones are added
/// up.
std::string BuildText(const v1::WorkerStatus& worker,
                      const Difference<v1::WorkerStatus>& difference) {
  constexpr std::size_t kShownStages = 6;
  struct Stage {
    const v1::StageSeconds* total;
    Rate seconds;
    bool shown = true;
  };
  std::vector<Stage> stages;
  for (const v1::StageSeconds& stage : worker.build()) {
    stages.push_back({&stage, difference.PerSecond([&](const v1::WorkerStatus& w) {
                        for (const auto& other : w.build()) {
                          if (other.stage() == stage.stage()) return other.seconds();
                        }
                        return 0.0;
                      })});
  }
  std::size_t others = 0;
  Rate rest;
  if (stages.size() > kShownStages) {
    std::vector<Stage*> largest;
    for (Stage& stage : stages) largest.push_back(&stage);
    std::stable_sort(largest.begin(), largest.end(), [](const Stage* a, const Stage* b) {
      return std::pair(a->seconds.value_or(0), a->total->seconds()) >
             std::pair(b->seconds.value_or(0), b->total->seconds());
    });
    for (std::size_t i = kShownStages - 1; i < largest.size(); ++i) {
      largest[i]->shown = false;
      ++others;
      if (largest[i]->seconds) rest = rest.value_or(0) + *largest[i]->seconds;
    }
  }
  std::string text;
  const auto add = [&text](const std::string& name, Rate seconds) {
    if (!text.empty()) text += ", ";
    text += name + (seconds ? fmt::format(" {:.2f}", *seconds) : " -");
  };
  for (const Stage& stage : stages) {
    if (stage.shown) add(Printable(stage.total->stage()), stage.seconds);
  }
  if (others > 0) add(fmt::format("{} others", others), rest);
  return text;
}

void Sort(std::vector<WorkerRow>& rows, TopSort sort) {
  std::stable_sort(rows.begin(), rows.end(), [sort](const WorkerRow& a, const WorkerRow& b) {
    if (sort == TopSort::kRate && a.batches != b.batches) return a.batches > b.batches;
    if (sort == TopSort::kWaited && a.waiters != b.waiters) return a.waiters > b.waiters;
    return a.status->name() < b.status->name();
  });
}

void Sort(std::vector<ConsumerRow>& rows, TopSort sort) {
  std::stable_sort(rows.begin(), rows.end(), [sort](const ConsumerRow& a, const ConsumerRow& b) {
    if (sort == TopSort::kRate && a.batches != b.batches) return a.batches > b.batches;
    if (sort == TopSort::kWaited && a.waited != b.waited) return a.waited > b.waited;
    const v1::ConsumerStatus& c = *a.status;
    const v1::ConsumerStatus& d = *b.status;
    return std::make_tuple(std::string_view(c.job()), c.rank(), c.replica()) <
           std::make_tuple(std::string_view(d.job()), d.rank(), d.replica());
  });
}

}  // namespace

std::string RankText(const v1::ConsumerStatus& consumer) {
  return consumer.replica() == 0 ? fmt::format("{}", consumer.rank())
                                 : fmt::format("{} ({})", consumer.rank(), consumer.replica());
}

std::string ListText(const v1::ConsumerStatus& consumer) {
  return fmt::format("{}/{}", consumer.list_used(), consumer.list());
}

std::string DueText(const v1::ConsumerStatus& consumer) {
  return consumer.due_seconds() > 0 ? fmt::format("{:.1f} s", consumer.due_seconds()) : "-";
}

WaitCause CauseOf(const v1::ConsumerStatus& consumer) {
  // A consumer that is not let in yet reports nothing itself.
  if (consumer.state() == "waiting") return WaitCause::kAttach;
  return FromProto(consumer.now().cause());
}

std::vector<WorkerRow> WorkerRows(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                                  TopSort sort) {
  const Known known(before);
  std::map<WorkerId, std::size_t> waiters;
  for (const auto& consumer : now.consumers()) {
    if (IsForWorker(CauseOf(consumer))) ++waiters[WorkerId(FromProto(consumer.now().worker()))];
  }
  std::vector<WorkerRow> rows;
  for (const auto& worker : now.workers()) {
    const WorkerId key(FromProto(worker.id()));
    const Difference<v1::WorkerStatus> difference(known.workers, key, worker);
    WorkerRow row;
    row.status = &worker;
    row.batches = difference.PerSecond([](const auto& w) { return w.sent_batches(); });
    row.bytes = difference.PerSecond([](const auto& w) { return w.sent_bytes(); });
    const Rate shared = difference.PerSecond([](const auto& w) { return w.shared_batches(); });
    if (shared && row.batches.value_or(0) > 0) row.shared = *shared / *row.batches;
    const Rate hits = difference.PerSecond(
        [](const auto& w) { return w.cache().memory_hits() + w.cache().disk_hits(); });
    const Rate builds = difference.PerSecond([](const auto& w) { return w.cache().builds(); });
    if (hits && builds && *hits + *builds > 0) row.cached = *hits / (*hits + *builds);
    row.blocked = difference.PerSecond([](const auto& w) { return w.send_blocked_seconds(); });
    row.build = BuildText(worker, difference);
    const auto found = waiters.find(key);
    if (found != waiters.end()) row.waiters = found->second;
    rows.push_back(std::move(row));
  }
  Sort(rows, sort);
  return rows;
}

std::vector<PluginRow> PluginRows(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                                  TopSort sort) {
  const Known known(before);
  std::vector<PluginRow> rows;
  for (const WorkerRow& worker : WorkerRows(before, now, sort)) {
    std::map<std::string, PluginRow> of_worker;
    for (const v1::PluginUse& use : worker.status->plugins()) {
      PluginRow& row = of_worker[use.object()];
      row.memory_bytes += use.memory_bytes();
      row.places += static_cast<std::size_t>(use.processes_size());
      for (const v1::PluginProcess& process : use.processes()) {
        row.running += process.process() == 0 ? 0 : 1;
        row.restarts += process.restarts();
        row.dropped += process.dropped();
        row.failed += process.failed();
      }
    }
    const Difference<v1::WorkerStatus> difference(
        known.workers, WorkerId(FromProto(worker.status->id())), *worker.status);
    for (auto& [object, row] : of_worker) {
      const auto sum = [&object = object](const v1::WorkerStatus& status, auto figure) {
        double all = 0;
        for (const v1::PluginUse& use : status.plugins()) {
          if (use.object() != object) continue;
          for (const auto& process : use.processes()) all += static_cast<double>(figure(process));
        }
        return all;
      };
      row.worker = worker.status;
      row.object = object;
      row.examples = difference.PerSecond([&](const v1::WorkerStatus& w) {
        return sum(w, [](const auto& process) { return process.examples(); });
      });
      row.busy = difference.PerSecond([&](const v1::WorkerStatus& w) {
        return sum(w, [](const auto& process) { return process.busy_seconds(); });
      });
      if (row.busy && row.places > 0) *row.busy /= static_cast<double>(row.places);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<ConsumerRow> ConsumerRows(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                                      TopSort sort) {
  const Known known(before);
  std::vector<ConsumerRow> rows;
  for (const auto& consumer : now.consumers()) {
    const Difference<v1::ConsumerStatus> difference(
        known.consumers, SessionId(FromProto(consumer.session())), consumer);
    ConsumerRow row;
    row.status = &consumer;
    row.cause = CauseOf(consumer);
    row.batches = difference.PerSecond([](const auto& c) { return c.counters().batches(); });
    row.examples = difference.PerSecond([](const auto& c) { return c.counters().examples(); });
    row.tokens = difference.PerSecond([](const auto& c) { return c.counters().tokens(); });
    row.bytes = difference.PerSecond([](const auto& c) { return c.counters().bytes(); });
    row.waited = difference.PerSecond([](const auto& c) { return c.waited_seconds(); });
    rows.push_back(row);
  }
  Sort(rows, sort);
  return rows;
}

}  // namespace millrace::cli
