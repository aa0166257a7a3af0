#include "common/transport/trace_peer.h"

#include <algorithm>
#include <cstdint>

#include "common/transport/convert/places.h"
#include "common/transport/convert/spans.h"

namespace millrace {
namespace {

/// The longest time for one request. So a peer stops to record by itself, even if the dispatcher is
/// gone.
constexpr Duration kLongest = std::chrono::seconds(600);

}  // namespace

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
  if (!taken.spans.empty()) {
    for (const std::string& name : taken.names) report.mutable_spans()->add_names(name);
  }
  MutexLock lock(mutex_);
  report.set_trace(taken.trace);
  report.set_name(name_);
  report.set_host_id(host_id_);
  ToProto(id, report.mutable_id());
  report.set_dropped(taken.dropped);
  report.set_done(taken.done);
  report.set_asked(ask_.sent());
  report.set_ask_received(ToNanoseconds(ask_received_));
  report.set_sent(ToNanoseconds(clock_->Now()));
  if (taken.done && taken.trace == ask_.trace()) asked_.store(false, std::memory_order_relaxed);
}

}  // namespace millrace
