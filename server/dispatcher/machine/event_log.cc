#include "server/dispatcher/machine/event_log.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "common/base/utf8.h"

namespace millrace {
namespace {

struct KindText {
  EventKind kind;
  std::string_view name;
  std::string_view many;  // what follows the number of several
};

using enum EventKind;

constexpr std::array<KindText, kEventKinds> kKinds{{
    {kDispatcherBegan, "dispatcher_began", "terms began"},
    {kTookOver, "took_over", "takeovers"},
    {kTermOver, "term_over", "terms are over"},
    {kPaused, "paused", "pauses of this dispatcher"},
    {kStoreFailed, "store_failed", "failures of the store"},
    {kStoreWorks, "store_works", "times the store works again"},
    {kDatasetFailed, "dataset_failed", "failures of datasets"},
    {kDigestsDiffer, "digests_differ", "datasets of workers differ from the dispatcher's"},
    {kBatchesDiffer, "batches_differ", "batches came twice with different bytes"},
    {kPlanFailed, "plan_failed", "plans failed at workers"},
    {kMeasuringFailed, "measuring_failed", "failures of measuring columns"},
    {kWorkerJoined, "worker_joined", "workers joined"},
    {kWorkerDraining, "worker_draining", "workers drain"},
    {kWorkerUndrained, "worker_undrained", "workers drain no more"},
    {kWorkerLeft, "worker_left", "workers left in order"},
    {kWorkerLost, "worker_lost", "workers are lost"},
    {kWorkerReturned, "worker_returned", "workers are back"},
    {kWorkerRefused, "worker_refused", "times a worker was refused"},
    {kStepsMoved, "steps_moved", "steps were taken back from workers"},
    {kListGrew, "list_grew", "times a list of workers grew"},
    {kJobBegan, "job_began", "jobs began"},
    {kJobEnded, "job_ended", "jobs ended"},
    {kJobFailed, "job_failed", "jobs ended with an error"},
    {kJobTurnedOut, "job_turned_out", "jobs were ended on request"},
    {kConsumerLost, "consumer_lost", "consumers are lost"},
    {kConsumerResumed, "consumer_resumed", "consumers resumed"},
    {kConsumerReplaced, "consumer_replaced", "consumers were replaced"},
    {kConsumerRefused, "consumer_refused", "times a consumer was refused"},
    {kConsumerFailed, "consumer_failed", "consumers were closed with an error"},
    {kPipelineRefused, "pipeline_refused", "times a pipeline was refused"},
    {kTuning, "tuning", "settings were changed by tuning"},
}};

constexpr bool InOrder() {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].kind != static_cast<EventKind>(i)) return false;
  }
  return true;
}
static_assert(InOrder());

const KindText& TextOf(EventKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

/// A text that a status can have: UTF-8 without control characters, and not too long.
std::string Clean(std::string text, std::size_t most) {
  const bool utf8 = IsUtf8(text);
  std::replace_if(
      text.begin(), text.end(),
      [utf8](char c) {
        const auto u = static_cast<unsigned char>(c);
        return u < 0x20 || u == 0x7F || (!utf8 && u >= 0x80);
      },
      ' ');
  if (text.size() <= most) return text;
  CutUtf8(text, most - 3);
  return text + "...";
}

std::string Sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return Clean(std::move(text), kMaxEventText);
}

}  // namespace

std::string_view EventKindName(EventKind kind) { return TextOf(kind).name; }

void EventLog::Add(NewEvent event, Time now) {
  event.job = Clean(std::move(event.job), kMaxNameBytes);
  event.peer = Clean(std::move(event.peer), kMaxEventPeer);
  PastEvent* open = Open(event.kind, event.job, now);
  if (open == nullptr && !event.job.empty() && CountOpen(event.kind, now) >= kJobsApart) {
    event.job.clear();
    open = Open(event.kind, event.job, now);
  }
  if (open == nullptr) {
    event.text = Sentence(std::move(event.text));
    events_.push_back({++last_number_, now, std::move(event)});
    if (events_.size() > kMaxEvents) DropOne();
    return;
  }
  NewEvent& all = open->what;
  all.count += std::min(event.count, std::numeric_limits<std::uint32_t>::max() - all.count);
  if (all.peer != event.peer) all.peer.clear();
  all.text =
      Sentence(fmt::format("{} {}{}. The last: {}", all.count, TextOf(all.kind).many,
                           all.job.empty() ? "" : fmt::format(" (job {})", all.job), event.text));
}

void EventLog::DetachJob(const std::string& job) {
  for (PastEvent& event : events_) {
    if (event.what.job == job) event.what.job.clear();
  }
}

PastEvent* EventLog::Open(EventKind kind, const std::string& job, Time now) {
  for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
    if (now - event->at >= kTogether) return nullptr;
    if (event->what.kind == kind && event->what.job == job) return &*event;
  }
  return nullptr;
}

std::size_t EventLog::CountOpen(EventKind kind, Time now) const {
  return static_cast<std::size_t>(
      std::count_if(events_.begin(), events_.end(), [&](const PastEvent& event) {
        return event.what.kind == kind && now - event.at < kTogether;
      }));
}

void EventLog::DropOne() {
  std::array<std::size_t, kEventKinds> counts{};
  for (const PastEvent& event : events_) ++counts[static_cast<std::size_t>(event.what.kind)];
  const auto most =
      static_cast<EventKind>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  events_.erase(std::find_if(events_.begin(), events_.end(),
                             [&](const PastEvent& event) { return event.what.kind == most; }));
}

}  // namespace millrace
