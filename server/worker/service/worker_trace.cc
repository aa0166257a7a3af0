// Records a worker's spans for a trace: the build of each batch, stage by stage, and its sending.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "server/worker/service/worker_service.h"

namespace millrace {
namespace {

constexpr std::array<std::pair<std::string_view, SpanKind>, 3> kStages = {{
    {"shuffle", SpanKind::kShuffle},
    {"closure", SpanKind::kClosure},
    {"batch", SpanKind::kBatch},
}};

Duration ToDuration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

// Stages run one after another, so each one began when the one before it ended. Those that are not
// of every plan are operations.
void WorkerService::RecordBuild(const BuildQueue::Task& task, Time began, Time ended,
                                const StageTimes& before, const StageTimes& after) {
  const SessionId session = machine_.SessionOf(task.stream);
  if (!session.is_set()) return;  // its stream is gone
  Span span;
  span.kind = SpanKind::kBuild;
  span.lane = Tracer::ThreadLane();
  span.begin = began;
  span.end = ended;
  span.session = session;
  span.epoch = task.at.epoch;
  span.example = task.at.example;
  trace_.tracer().Record(span);
  span.end = began;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (after[i].seconds == before[i].seconds) continue;  // it is not of this slice
    span.begin = span.end;
    span.end = std::min(span.begin + ToDuration(after[i].seconds - before[i].seconds), ended);
    const auto stage = std::find_if(kStages.begin(), kStages.end(), [&](const auto& known) {
      return known.first == after[i].stage;
    });
    if (stage == kStages.end()) {
      span.kind = SpanKind::kOperation;
      trace_.tracer().RecordNamed(span, after[i].stage);
      continue;
    }
    span.kind = stage->second;
    trace_.tracer().Record(span);
  }
  span.kind = SpanKind::kSeal;
  span.begin = span.end;
  span.end = ended;
  trace_.tracer().Record(span);
}

void WorkerService::RecordRequest(std::string_view object, Time began, Time ended) {
  if (!trace_.tracer().on()) return;
  const std::uint32_t lane = Tracer::ThreadLane();
  MutexLock lock(mutex_);
  const auto found = std::find_if(building_.begin(), building_.end(),
                                  [lane](const auto& entry) { return entry.second.lane == lane; });
  if (found == building_.end()) return;  // it measures, or compiles a plan
  const BuildQueue::Task& task = found->second.task;
  Span span;
  span.kind = SpanKind::kPython;
  span.lane = lane;
  span.begin = began;
  span.end = ended;
  span.session = machine_.SessionOf(task.stream);
  if (!span.session.is_set()) return;
  span.epoch = task.at.epoch;
  span.example = task.at.example;
  trace_.tracer().RecordNamed(span, "python " + std::string(object));
}

void WorkerService::BeginSend(StreamId id, Outlet& outlet, const BuildQueue::Outgoing& outgoing) {
  Span& span = outlet.sending;
  span.kind = SpanKind::kSend;
  span.lane = static_cast<std::uint32_t>(id);
  span.begin = trace_.tracer().Begin();
  span.session = machine_.SessionOf(id);
  span.epoch = outgoing.task.at.epoch;
  span.example = outgoing.task.at.example;
  span.bytes = outgoing.bytes;
}

void WorkerService::EndSend(Outlet& outlet) {
  trace_.tracer().Record(outlet.sending);
  outlet.sending = Span{};
}

}  // namespace millrace
