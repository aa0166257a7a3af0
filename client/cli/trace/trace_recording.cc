#include "client/cli/trace/trace_recording.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "client/session/machine/stats.h"
#include "common/base/json_text.h"
#include "common/epoch/position.h"
#include "common/system/trace.h"
#include "common/transport/convert/places.h"
#include "common/transport/convert/spans.h"
#include "common/transport/convert/steps.h"

namespace millrace::cli {
namespace {

constexpr std::array<std::string_view, kSpanKinds> kSpanKindNames = {
    "",        "",       "build",  "shuffle", "closure", "batch",     "seal",   "send",
    "receive", "gather", "expand", "taken",   "waited",  "operation", "python", "ask"};

/// The kinds of rows in which a process's spans are drawn. Spans in one row do not overlap, except
/// that one may lie within another.
enum class Track : std::uint8_t { kBuilder, kSends, kReceives, kExpands, kLoop };

Track TrackOf(SpanKind kind, v1::TraceRole role) {
  switch (kind) {
    case SpanKind::kSend:
      return Track::kSends;
    case SpanKind::kReceive:
    case SpanKind::kGather:
      return Track::kReceives;
    case SpanKind::kExpand:
      return Track::kExpands;
    case SpanKind::kTaken:
    case SpanKind::kWaited:
      return Track::kLoop;
    case SpanKind::kOperation:
      return role == v1::TRACE_CONSUMER ? Track::kExpands : Track::kBuilder;
    default:
      return Track::kBuilder;
  }
}

/// "a, b": names that are not empty, each once.
std::string Listed(const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::vector<std::string_view> listed;
  for (const std::string& name : names) {
    const bool known = std::find(listed.begin(), listed.end(), name) != listed.end();
    if (!name.empty() && !known) listed.push_back(name);
  }
  return fmt::format("{}", fmt::join(listed, ", "));
}

std::string TrackName(Track track, std::uint32_t lane) {
  switch (track) {
    case Track::kBuilder:
      return fmt::format("builder {}", lane);
    case Track::kSends:
      return fmt::format("sends, stream {}", lane);
    case Track::kReceives:
      return fmt::format("receives, stream {}", lane);
    case Track::kExpands:
      return lane == 0 ? "expands" : fmt::format("expands, thread {}", lane);
    case Track::kLoop:
      return "training loop";
  }
  return {};
}

/// Whether the flow of a batch goes through spans of this kind. All other spans lie within these.
bool InFlow(SpanKind kind) {
  return kind == SpanKind::kBuild || kind == SpanKind::kSend || kind == SpanKind::kReceive ||
         kind == SpanKind::kExpand || kind == SpanKind::kTaken;
}

/// Nanoseconds as microseconds, exactly.
std::string Microseconds(std::int64_t ns) {
  const bool negative = ns < 0;
  const std::uint64_t abs =
      negative ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  return fmt::format("{}{}.{:03}", negative ? "-" : "", abs / 1000, abs % 1000);
}

/// One batch of one session: the session's number and the batch's position.
using TracedBatch = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

/// A place that a flow goes through.
struct Stop {
  SpanKind kind;
  std::int64_t begin;
  int pid;
  int tid;
};

class Writer {
 public:
  using Out = std::function<void(std::string_view)>;
  using Processes = std::map<TraceRecording::ProcessKey, v1::TraceProcess>;
  using Sessions = std::map<SessionId, v1::TraceSession>;

  Writer(const Out& out, std::uint64_t began, const Processes& processes, const Sessions& sessions)
      : out_(out), began_(static_cast<std::int64_t>(began)), processes_(processes) {
    for (const auto& [key, session] : sessions) {
      Named named{&session, std::nullopt};
      const Result<StepArithmetic> steps = StepArithmetic::Create(FromProto(session.steps()));
      if (session.has_steps() && steps.ok()) named.steps = *steps;
      sessions_.emplace(key, std::move(named));
    }
    out_("{\"traceEvents\":[");
    int pid = 0;
    for (const auto& [key, process] : processes_) {
      pids_[key] = ++pid;
      Event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}})",
                        pid, JsonText(ProcessName(process))));
      Event(fmt::format(
          R"("ph":"M","name":"process_labels","pid":{},"tid":0,"args":{{"labels":{}}})", pid,
          JsonText(process.clock_error_ns() == 0
                       ? std::string("the dispatcher's clock")
                       : fmt::format("clock within {} us", Microseconds(static_cast<std::int64_t>(
                                                               process.clock_error_ns()))))));
      Event(fmt::format(
          R"("ph":"M","name":"process_sort_index","pid":{},"tid":0,"args":{{"sort_index":{}}})",
          pid, pid));
    }
  }

  /// Notes where batches were built. It must be called before the spans that follow are written.
  void Learn(const TraceRecording::ProcessKey& process, const Span& span) {
    if (span.kind == SpanKind::kBuild || span.kind == SpanKind::kSend) {
      workers_[KeyOf(span)] = processes_.at(process).name();
    }
  }

  /// `own_name`: that of a span whose kind has names, otherwise empty.
  void Write(const TraceRecording::ProcessKey& key, const Span& span, std::string_view own_name) {
    if (span.kind == SpanKind::kAsk) return WriteAsk(key, span);
    const v1::TraceProcess& process = processes_.at(key);
    const int pid = pids_.at(key);
    const Track track = TrackOf(span.kind, process.role());
    const int tid = Tid(pid, track, span.lane);
    const std::int64_t begin = TimeOf(process, span.begin);
    const std::int64_t length = std::max<std::int64_t>(0, (span.end - span.begin).count());
    const auto kind = static_cast<std::size_t>(span.kind);
    std::string name(kind < kSpanKinds ? kSpanKindNames[kind] : "unknown");
    if (span.kind == SpanKind::kWaited && span.detail < kWaitCauses) {
      name += fmt::format(": {}", WaitCauseName(static_cast<WaitCause>(span.detail)));
    }
    if (!own_name.empty()) name = own_name;
    Event(fmt::format(
        R"("ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}})",
        JsonText(name), RoleName(process.role()), pid, tid, Microseconds(begin),
        Microseconds(length), Args(span)));
    if (!InFlow(span.kind)) return;
    const Stop stop{span.kind, begin, pid, tid};
    stops_[KeyOf(span)].push_back(stop);
  }

  void Finish(std::uint64_t dropped, std::uint64_t clock_error_ns) {
    std::uint64_t flow = 0;
    for (auto& [key, stops] : stops_) {
      // Stops are put in the order of a batch's way, whatever the clocks say.
      std::stable_sort(stops.begin(), stops.end(), [](const Stop& a, const Stop& b) {
        return std::tie(a.kind, a.begin) < std::tie(b.kind, b.begin);
      });
      if (stops.size() < 2) continue;
      ++flow;
      for (std::size_t i = 0; i < stops.size(); ++i) {
        const char* const phase = i == 0 ? "s" : i + 1 == stops.size() ? "f" : "t";
        Event(fmt::format(
            R"("ph":"{}","id":{},"name":"batch","cat":"batch","pid":{},"tid":{},"ts":{}{})", phase,
            flow, stops[i].pid, stops[i].tid, Microseconds(stops[i].begin),
            *phase == 'f' ? R"(,"bp":"e")" : ""));
      }
    }
    out_(
        fmt::format("\n],\"displayTimeUnit\":\"ms\",\"otherData\":{{\"clock_error_us\":\"{}\","
                    "\"dropped_spans\":\"{}\"}}}}\n",
                    Microseconds(static_cast<std::int64_t>(clock_error_ns)), dropped));
  }

 private:
  struct Named {
    const v1::TraceSession* session;
    std::optional<StepArithmetic> steps;
  };

  /// Nanoseconds since the trace began, by the dispatcher's clock.
  std::int64_t TimeOf(const v1::TraceProcess& process, Time time) const {
    return time.since_boot.count() - process.clock_offset_ns() - began_;
  }

  /// Asks of a consumer overlap in time, so they are drawn as asynchronous events.
  void WriteAsk(const TraceRecording::ProcessKey& key, const Span& span) {
    const v1::TraceProcess& process = processes_.at(key);
    const std::int64_t begin = TimeOf(process, span.begin);
    const std::int64_t end = std::max(begin, TimeOf(process, span.end));
    const std::string_view kind = AskKindName(span.detail);
    ++asks_;
    const auto event = [&](char phase, std::int64_t at, const std::string& args) {
      Event(fmt::format(
          R"("ph":"{}","name":"ask{}{}","cat":"ask","id":{},"pid":{},"tid":0,"ts":{},"args":{{{}}})",
          phase, kind.empty() ? "" : ": ", kind, asks_, pids_.at(key), Microseconds(at), args));
    };
    event('b', begin, Args(span));
    event('e', end, "");
  }

  static TracedBatch KeyOf(const Span& span) {
    return {span.session.number().term, span.session.number().n, span.epoch, span.example};
  }

  static std::string_view RoleName(v1::TraceRole role) {
    return role == v1::TRACE_DISPATCHER ? "dispatcher"
           : role == v1::TRACE_WORKER   ? "worker"
                                        : "consumer";
  }

  std::string ProcessName(const v1::TraceProcess& process) const {
    if (process.role() == v1::TRACE_CONSUMER) {
      const auto found = sessions_.find(SessionId(FromProto(process.id())));
      if (found != sessions_.end()) {
        const v1::TraceSession& session = *found->second.session;
        return fmt::format(
            "consumer {} rank {}{} ({})", session.job(), session.rank(),
            session.replica() == 0 ? "" : fmt::format(" replica {}", session.replica()),
            process.name());
      }
    }
    return fmt::format("{} {}", RoleName(process.role()), process.name());
  }

  std::string Args(const Span& span) const {
    std::string args;
    const auto add = [&args](std::string_view name, const std::string& value) {
      args += fmt::format("{}\"{}\":{}", args.empty() ? "" : ",", name, value);
    };
    const auto found = sessions_.find(span.session);
    const Named* const named = found == sessions_.end() ? nullptr : &found->second;
    if (named != nullptr) {
      add("job", JsonText(named->session->job()));
      add("rank", fmt::format("{}", named->session->rank()));
      if (named->session->replica() != 0) {
        add("replica", fmt::format("{}", named->session->replica()));
      }
      for (const auto& [name, value] : {std::pair("dataset", Listed(named->session->datasets())),
                                        std::pair("kind", Listed(named->session->kinds()))}) {
        if (!value.empty()) add(name, JsonText(value));
      }
    }
    // A consumer that waits to be let in waits for no batch.
    if (span.kind == SpanKind::kWaited &&
        span.detail == static_cast<std::uint32_t>(WaitCause::kAttach)) {
      return args;
    }
    add("epoch", fmt::format("{}", span.epoch));
    add("position", fmt::format("{}", span.example));
    if (named != nullptr && named->steps) {
      const Position at{span.epoch, span.example};
      add("step", fmt::format("{}", named->steps->Step(at)));
      add("ordinal", fmt::format("{}", named->steps->Ordinal(at, named->session->rank())));
    }
    if (const auto worker = workers_.find(KeyOf(span)); worker != workers_.end()) {
      add("worker", JsonText(worker->second));
    }
    if (span.bytes > 0) add("bytes", fmt::format("{}", span.bytes));
    return args;
  }

  int Tid(int pid, Track track, std::uint32_t lane) {
    // The training loop has one thread, so one row is enough.
    if (track == Track::kLoop) lane = 0;
    const auto [found, added] = tids_.try_emplace({pid, track, lane}, 0);
    if (added) {
      found->second = ++last_tid_[pid];
      Event(fmt::format(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}})",
                        pid, found->second, TrackName(track, lane)));
    }
    return found->second;
  }

  void Event(const std::string& fields) {
    out_(fmt::format("{}{{{}}}", first_ ? "\n" : ",\n", fields));
    first_ = false;
  }

  const Out& out_;
  const std::int64_t began_;
  const Processes& processes_;
  std::map<SessionId, Named> sessions_;
  std::map<TraceRecording::ProcessKey, int> pids_;
  std::map<std::tuple<int, Track, std::uint32_t>, int> tids_;
  std::map<int, int> last_tid_;
  std::map<TracedBatch, std::string> workers_;
  std::map<TracedBatch, std::vector<Stop>> stops_;
  std::uint64_t asks_ = 0;
  bool first_ = true;
};

}  // namespace

void TraceRecording::Add(v1::TraceChunk chunk) {
  if (chunk.began() != 0) began_ = chunk.began();
  for (v1::TraceSession& session : *chunk.mutable_sessions()) {
    const SessionId key(FromProto(session.id()));
    sessions_[key] = std::move(session);
  }
  if (!chunk.has_process()) return;
  const v1::TraceProcess& process = chunk.process();
  const ProcessKey key{process.role(), FromProto(process.id())};
  processes_[key] = process;
  const std::size_t count = SpanCount(chunk.spans());
  if (count == 0) return;
  spans_ += count;
  chunks_.emplace_back(key, std::move(*chunk.mutable_spans()));
}

std::uint64_t TraceRecording::dropped() const {
  std::uint64_t dropped = 0;
  for (const auto& [key, process] : processes_) dropped += process.dropped();
  return dropped;
}

std::size_t TraceRecording::processes(v1::TraceRole role) const {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(),
                    [role](const auto& entry) { return entry.second.role() == role; }));
}

std::uint64_t TraceRecording::clock_error_ns() const {
  std::uint64_t error = 0;
  for (const auto& [key, process] : processes_) error = std::max(error, process.clock_error_ns());
  return error;
}

void TraceRecording::WriteJson(const std::function<void(std::string_view)>& out) const {
  Writer writer(out, began_, processes_, sessions_);
  const auto each = [this](auto f) {
    for (const auto& [key, spans] : chunks_) {
      for (std::size_t row = 0; row < SpanCount(spans); ++row) f(key, SpanAt(spans, row), spans);
    }
  };
  each([&](const ProcessKey& key, const Span& span, const v1::Spans&) { writer.Learn(key, span); });
  each([&](const ProcessKey& key, const Span& span, const v1::Spans& spans) {
    writer.Write(key, span, NameOf(spans, span));
  });
  writer.Finish(dropped(), clock_error_ns());
}

}  // namespace millrace::cli
