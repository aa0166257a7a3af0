#include "common/transport/trace_peer.h"

#include <algorithm>
#include <cstdint>

namespace millrace {
namespace {

/// Longer asks are cut: a peer stops by itself, whatever becomes of the dispatcher.
constexpr Duration kLongest = std::chrono::seconds(600);

std::uint64_t Nanoseconds(Time time) { return static_cast<std::uint64_t>(time.since_boot.count()); }
Time FromNanoseconds(std::uint64_t ns) { return {Duration(static_cast<std::int64_t>(ns))}; }

}  // namespace

void AppendTo(v1::Spans& columns, const Span& span) {
  columns.add_kind(static_cast<std::uint32_t>(span.kind));
  columns.add_begin(Nanoseconds(span.begin));
  columns.add_end(Nanoseconds(span.end));
  columns.add_lane(span.lane);
  columns.add_session_term(span.session.term);
  columns.add_session_n(span.session.n);
  columns.add_lease_term(span.lease.term);
  columns.add_lease_n(span.lease.n);
  columns.add_epoch(span.epoch);
  columns.add_example(span.example);
  columns.add_bytes(span.bytes);
  columns.add_detail(span.detail);
}

std::size_t SpanCount(const v1::Spans& c) {
  return static_cast<std::size_t>(
      std::min({c.kind_size(), c.begin_size(), c.end_size(), c.lane_size(), c.session_term_size(),
                c.session_n_size(), c.lease_term_size(), c.lease_n_size(), c.epoch_size(),
                c.example_size(), c.bytes_size(), c.detail_size()}));
}

Span SpanAt(const v1::Spans& columns, std::size_t row) {
  const int i = static_cast<int>(row);
  Span span;
  span.kind = static_cast<SpanKind>(std::min<std::uint32_t>(columns.kind(i), kSpanKinds));
  span.begin = FromNanoseconds(columns.begin(i));
  span.end = FromNanoseconds(columns.end(i));
  span.lane = columns.lane(i);
  span.session = {columns.session_term(i), columns.session_n(i)};
  span.lease = {columns.lease_term(i), columns.lease_n(i)};
  span.epoch = columns.epoch(i);
  span.example = columns.example(i);
  span.bytes = columns.bytes(i);
  span.detail = columns.detail(i);
  return span;
}

void TracePeer::OnAsk(const v1::TraceAsk& ask) {
  const Time now = clock_->Now();
  const auto remaining = static_cast<std::int64_t>(
      std::min(ask.remaining_ns(), static_cast<std::uint64_t>(kLongest.count())));
  MutexLock lock(mutex_);
  if (ask.trace() == 0) return;
  const bool other = ask.trace() != ask_.trace();
  ask_ = ask;
  ask_received_ = now;
  tracer_.Start(ask.trace(), now + Duration(remaining));
  if (other) asked_.store(true, std::memory_order_relaxed);
}

void TracePeer::Fill(Number id, v1::TraceReport& report) {
  const Tracer::Taken taken = tracer_.Take(kMostInMessage);
  for (const Span& span : taken.spans) AppendTo(*report.mutable_spans(), span);
  MutexLock lock(mutex_);
  report.set_trace(taken.trace);
  report.set_name(name_);
  report.set_host_id(host_id_);
  report.mutable_id()->set_term(id.term);
  report.mutable_id()->set_n(id.n);
  report.set_dropped(taken.dropped);
  report.set_done(taken.done);
  report.set_asked(ask_.sent());
  report.set_ask_received(Nanoseconds(ask_received_));
  report.set_sent(Nanoseconds(clock_->Now()));
  if (taken.done && taken.trace == ask_.trace()) asked_.store(false, std::memory_order_relaxed);
}

}  // namespace millrace
