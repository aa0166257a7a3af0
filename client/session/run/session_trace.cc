// What a session tells a trace: batches expanded and taken, and what the loop waited for.

#include "client/session/run/session_core.h"

namespace millrace {

Span Session::Core::SpanOf(SpanKind kind, std::uint64_t step) const {
  Span span;
  span.kind = kind;
  span.session = state_.session();
  if (!state_.admission()) return span;
  const Position at = state_.steps().At(step);
  span.epoch = at.epoch;
  span.example = at.example;
  return span;
}

void Session::Core::RecordTaken(std::uint64_t step, const client::ExpandedBatch& expanded,
                                Time began) {
  Span span = SpanOf(SpanKind::kExpand, step);
  span.begin = expanded.expand_began;
  span.end = expanded.expanded;
  span.bytes = expanded.packed->bytes().size();
  span.lane = expanded.expand_lane;
  if (span.end != Time{}) trace_.tracer().Record(span);
  span.kind = SpanKind::kTaken;
  span.lane = 0;
  span.begin = began;
  span.end = Time{};
  trace_.tracer().Record(span);
}

void Session::Core::NoteWait() {
  if (state_.cause() == noted_cause_) return;
  RecordWait();
  noted_cause_ = state_.cause();
  noted_step_ = state_.next();
  noted_since_ = noted_cause_ == WaitCause::kNone ? Time{} : trace_.tracer().Begin();
}

void Session::Core::RecordWait() {
  if (!trace_.tracer().on() || noted_cause_ == WaitCause::kNone) return;
  const Time now = Now();
  if (noted_since_ != Time{}) {
    Span span = SpanOf(SpanKind::kWaited, noted_step_);
    span.begin = noted_since_;
    span.end = now;
    span.detail = static_cast<std::uint32_t>(noted_cause_);
    trace_.tracer().Record(span);
  }
  noted_since_ = now;
}

}  // namespace millrace
