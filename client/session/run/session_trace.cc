// Records spans of a session for a trace: batches expanded and taken, and the waits of the loop.

#include <string>

#include "client/session/run/session_runner.h"

namespace millrace {

Span SessionRunner::SpanOf(SpanKind kind, std::uint64_t step) const {
  Span span;
  span.kind = kind;
  span.session = machine_.session();
  if (!machine_.admission()) return span;
  const Position at = machine_.steps().At(step);
  span.epoch = at.epoch;
  span.example = at.example;
  return span;
}

void SessionRunner::RecordTaken(std::uint64_t step, const client::ExpandedBatch& expanded,
                                Time began) {
  Span span = SpanOf(SpanKind::kExpand, step);
  span.begin = expanded.expand_began;
  span.end = expanded.expanded;
  span.bytes = expanded.packed->bytes().size();
  span.lane = expanded.expand_lane;
  if (span.end != Time{}) trace_.tracer().Record(span);
  for (const client::OperationTime& operation : expanded.operations) {
    span.begin = operation.began;
    span.end = operation.ended;
    if (span.end == Time{}) continue;
    span.kind = SpanKind::kOperation;
    trace_.tracer().RecordNamed(span,
                                std::string(Program::kStagePrefix) + std::string(operation.name));
  }
  span.kind = SpanKind::kTaken;
  span.lane = 0;
  span.begin = began;
  span.end = Time{};
  trace_.tracer().Record(span);
}

void SessionRunner::RecordAsk(Position at, std::uint64_t bytes) {
  const std::optional<client::Ask>& ask = machine_.answered();
  if (!trace_.tracer().on() || !ask) return;
  Span span;
  span.kind = SpanKind::kAsk;
  span.session = machine_.session();
  span.epoch = at.epoch;
  span.example = at.example;
  span.bytes = bytes;
  span.detail = static_cast<std::uint32_t>(ask->kind);
  span.begin = ask->asked;
  trace_.tracer().Record(span);
}

void SessionRunner::NoteWait() {
  if (machine_.cause() == noted_cause_) return;
  RecordWait();
  noted_cause_ = machine_.cause();
  noted_step_ = machine_.next();
  noted_since_ = noted_cause_ == WaitCause::kNone ? Time{} : trace_.tracer().Begin();
}

void SessionRunner::RecordWait() {
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
