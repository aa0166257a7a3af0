#include "server/dispatcher/service/trace_collector.h"

#include <algorithm>

#include <fmt/core.h>

#include "common/transport/convert/spans.h"

namespace millrace {
namespace {

/// The most chunks that wait for a reader. They take about 100 MB.
constexpr std::size_t kMostWaiting = 64;
constexpr std::size_t kMostPeers = 40'000;
/// How long after its end a trace waits for a slow reader.
constexpr Duration kPatience = std::chrono::seconds(15);

std::uint64_t Nanoseconds(Time time) { return static_cast<std::uint64_t>(time.since_boot.count()); }
Time FromNanoseconds(std::uint64_t ns) { return {Duration(static_cast<std::int64_t>(ns))}; }

/// Cuts a name that a peer has sent: nobody needs a longer one.
std::string Cut(const std::string& name) { return name.substr(0, 256); }

}  // namespace

/// A stream whose other end wants a trace.
class TraceCollector::Reader final : public StreamHandler<v1::TraceRequest> {
 public:
  Reader(std::weak_ptr<TraceCollector> collector, std::uint64_t id,
         std::shared_ptr<Stream<v1::TraceChunk>> stream)
      : collector_(std::move(collector)), id_(id), stream_(std::move(stream)) {}

  void OnMessage(v1::TraceRequest request) override {
    if (const auto collector = collector_.lock()) collector->OnRequest(id_, stream_, request);
  }
  void OnWriteDone() override {
    if (const auto collector = collector_.lock()) collector->OnWritten(id_);
  }
  void OnClosed(const Status&) override {
    stream_.reset();
    if (const auto collector = collector_.lock()) collector->OnGone(id_);
  }

 private:
  const std::weak_ptr<TraceCollector> collector_;
  const std::uint64_t id_;
  std::shared_ptr<Stream<v1::TraceChunk>> stream_;
};

TraceCollector::TraceCollector(std::shared_ptr<const Clock> clock, std::string name,
                               std::string host_id)
    : clock_(clock), name_(std::move(name)), host_id_(std::move(host_id)) {}

std::shared_ptr<StreamHandler<v1::TraceRequest>> TraceCollector::Accept(
    std::shared_ptr<Stream<v1::TraceChunk>> stream) {
  return std::make_shared<Reader>(weak_from_this(), ++last_reader_, std::move(stream));
}

void TraceCollector::OnRequest(std::uint64_t reader,
                               const std::shared_ptr<Stream<v1::TraceChunk>>& stream,
                               const v1::TraceRequest& request) {
  MutexLock lock(mutex_);
  if (trace_) {
    stream->Close(ResourceExhausted(fmt::format(
        "another trace is being taken, for {:.0f} s more: try again then",
        std::max(0.0, ToSeconds(trace_->until - clock_->Now())) + ToSeconds(kLateness))));
    return;
  }
  if (request.seconds() < 1 || request.seconds() > kMostSeconds) {
    stream->Close(InvalidArgument(
        fmt::format("a trace of {} s: expected 1 to {}", request.seconds(), kMostSeconds)));
    return;
  }
  trace_ = std::make_unique<Trace>();
  Trace& trace = *trace_;
  trace.began = clock_->Now();
  trace.until = trace.began + std::chrono::seconds(request.seconds());
  // The number is higher than all before it, also than those of earlier dispatchers.
  trace.number = last_trace_ =
      std::max(last_trace_ + 1, static_cast<std::uint64_t>(clock_->UnixSeconds()) << 20);
  trace.reader = stream;
  trace.reader_id = reader;
  active_.store(true, std::memory_order_relaxed);
  v1::TraceChunk first;
  first.set_began(Nanoseconds(trace.began));
  first.mutable_process()->set_role(v1::TRACE_DISPATCHER);
  first.mutable_process()->set_name(name_);
  PassOn(std::move(first));
}

void TraceCollector::OnWritten(std::uint64_t reader) {
  MutexLock lock(mutex_);
  if (!trace_ || trace_->reader_id != reader) return;
  trace_->writing = false;
  WriteNext();
}

void TraceCollector::OnGone(std::uint64_t reader) {
  std::shared_ptr<Stream<v1::TraceChunk>> gone;  // dropped outside the lock
  MutexLock lock(mutex_);
  if (!trace_ || trace_->reader_id != reader) return;
  gone = std::move(trace_->reader);
  trace_->waiting.clear();
  trace_->writing = false;
  // With this end, the next Tick tells the peers to stop.
  trace_->until = std::min(trace_->until, clock_->Now());
  lock.Unlock();
}

void TraceCollector::PassOn(v1::TraceChunk chunk) {
  if (trace_->reader == nullptr) return;
  if (trace_->waiting.size() >= kMostWaiting) {
    const PeerKey key{chunk.process().role(), FromProto(chunk.process().id())};
    trace_->peers[key].not_passed_on += SpanCount(chunk.spans());
    return;
  }
  trace_->waiting.push_back(std::move(chunk));
  WriteNext();
}

void TraceCollector::WriteNext() {
  if (trace_->writing || trace_->waiting.empty() || trace_->reader == nullptr) return;
  trace_->writing = true;
  v1::TraceChunk chunk = std::move(trace_->waiting.front());
  trace_->waiting.pop_front();
  trace_->reader->Write(std::move(chunk));
}

void TraceCollector::OnReport(v1::TraceRole role, v1::TraceReport report) {
  if (!active_.load(std::memory_order_relaxed)) return;
  const Time now = clock_->Now();
  MutexLock lock(mutex_);
  if (!trace_ || report.trace() != trace_->number) return;
  const PeerKey key{role, FromProto(report.id())};
  if (trace_->peers.size() >= kMostPeers && !trace_->peers.contains(key)) return;
  const auto [found, added] = trace_->peers.try_emplace(key);
  Peer& peer = found->second;
  if (added) peer.clock = ClockOffset(!host_id_.empty() && report.host_id() == host_id_);
  peer.clock.Add({FromNanoseconds(report.asked()), FromNanoseconds(report.ask_received()),
                  FromNanoseconds(report.sent()), now});
  peer.done = report.done();

  v1::TraceChunk chunk;
  v1::TraceProcess& process = *chunk.mutable_process();
  process.set_role(role);
  *process.mutable_id() = report.id();
  process.set_name(Cut(report.name()));
  process.set_clock_offset_ns(peer.clock.offset().count());
  process.set_clock_error_ns(static_cast<std::uint64_t>(peer.clock.error().count()));
  process.set_dropped(report.dropped() + peer.not_passed_on);
  chunk.mutable_spans()->Swap(report.mutable_spans());
  PassOn(std::move(chunk));
}

std::optional<v1::TraceAsk> TraceCollector::Tick(const DispatcherFacts& facts, std::size_t peers) {
  if (!active_.load(std::memory_order_relaxed)) return std::nullopt;
  const Time now = clock_->Now();
  MutexLock lock(mutex_);
  if (!trace_) return std::nullopt;
  TellSessions(facts);
  if (now >= trace_->until) {
    const auto done =
        static_cast<std::size_t>(std::count_if(trace_->peers.begin(), trace_->peers.end(),
                                               [](const auto& peer) { return peer.second.done; }));
    const Duration late = now - trace_->until;
    const bool sent = trace_->waiting.empty() && !trace_->writing;
    if ((sent && (done >= peers || late >= kLateness)) || late >= kPatience) {
      End(OkStatus());
      return std::nullopt;
    }
  }
  v1::TraceAsk ask;
  ask.set_trace(trace_->number);
  if (now < trace_->until) {
    ask.set_remaining_ns(static_cast<std::uint64_t>((trace_->until - now).count()));
  }
  ask.set_sent(Nanoseconds(now));
  return ask;
}

void TraceCollector::TellSessions(const DispatcherFacts& facts) {
  v1::TraceChunk chunk;
  for (const auto& [id, session] : facts.sessions()) {
    if (!trace_->told.emplace(id, session.plan.has_value()).second) continue;
    v1::TraceSession& out = *chunk.add_sessions();
    ToProto(id, out.mutable_id());
    out.set_job(session.hello.job());
    out.set_rank(session.hello.rank());
    out.set_replica(session.hello.replica());
    if (!session.plan) continue;
    *out.mutable_steps() = session.plan->spec.steps();
    const PlanFacts& plan = *session.plan->facts;
    for (const PlanDataset& dataset : plan.datasets()) {
      out.add_datasets(dataset.id);
      std::string& kind = *out.add_kinds();
      // A job goes on with its dataset when another one takes its id.
      const auto here = facts.datasets().find(dataset.id);
      if (here != facts.datasets().end() && here->second.digest() == dataset.digest.ToHex()) {
        kind = here->second.kind();
      }
    }
  }
  if (chunk.sessions_size() > 0) PassOn(std::move(chunk));
}

void TraceCollector::End(const Status& status) {
  if (trace_->reader != nullptr) trace_->reader->Close(status);
  trace_.reset();
  active_.store(false, std::memory_order_relaxed);
}

void TraceCollector::Stop(const Status& why) {
  MutexLock lock(mutex_);
  if (trace_) End(why);
}

}  // namespace millrace
