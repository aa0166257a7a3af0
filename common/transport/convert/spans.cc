#include "common/transport/convert/spans.h"

#include <algorithm>

namespace millrace {
namespace {

Time FromNanoseconds(std::uint64_t ns) { return {Duration(static_cast<std::int64_t>(ns))}; }

/// The protocol's value for a kind. The switch has no default, so that a kind without a counterpart
/// in the protocol does not compile.
constexpr v1::SpanKind Twin(SpanKind kind) {
  switch (kind) {
    case SpanKind::kBuild:
      return v1::SPAN_BUILD;
    case SpanKind::kShuffle:
      return v1::SPAN_SHUFFLE;
    case SpanKind::kClosure:
      return v1::SPAN_CLOSURE;
    case SpanKind::kBatch:
      return v1::SPAN_BATCH;
    case SpanKind::kSeal:
      return v1::SPAN_SEAL;
    case SpanKind::kSend:
      return v1::SPAN_SEND;
    case SpanKind::kReceive:
      return v1::SPAN_RECEIVE;
    case SpanKind::kGather:
      return v1::SPAN_GATHER;
    case SpanKind::kExpand:
      return v1::SPAN_EXPAND;
    case SpanKind::kTaken:
      return v1::SPAN_TAKEN;
    case SpanKind::kWaited:
      return v1::SPAN_WAITED;
    case SpanKind::kOperation:
      return v1::SPAN_OPERATION;
    case SpanKind::kPython:
      return v1::SPAN_PYTHON;
    case SpanKind::kAsk:
      return v1::SPAN_ASK;
  }
  return v1::SPAN_KIND_UNSPECIFIED;
}

constexpr bool SpanNumbersAgree() {
  for (std::size_t i = static_cast<std::size_t>(SpanKind::kBuild); i < kSpanKinds; ++i) {
    if (Twin(static_cast<SpanKind>(i)) != static_cast<v1::SpanKind>(i)) return false;
  }
  return true;
}
static_assert(v1::SpanKind_ARRAYSIZE == kSpanKinds, "trace.proto and SpanKind differ");
static_assert(SpanNumbersAgree(), "a SpanKind has another number in trace.proto");

}  // namespace

std::uint64_t ToNanoseconds(Time time) {
  return static_cast<std::uint64_t>(time.since_boot.count());
}

void AppendTo(v1::Spans& columns, const Span& span) {
  columns.add_kind(static_cast<std::uint32_t>(span.kind));
  columns.add_begin(ToNanoseconds(span.begin));
  columns.add_end(ToNanoseconds(span.end));
  columns.add_lane(span.lane);
  columns.add_session_term(span.session.number().term);
  columns.add_session_n(span.session.number().n);
  columns.add_epoch(span.epoch);
  columns.add_example(span.example);
  columns.add_bytes(span.bytes);
  columns.add_detail(span.detail);
}

std::size_t SpanCount(const v1::Spans& c) {
  return static_cast<std::size_t>(std::min(
      {c.kind_size(), c.begin_size(), c.end_size(), c.lane_size(), c.session_term_size(),
       c.session_n_size(), c.epoch_size(), c.example_size(), c.bytes_size(), c.detail_size()}));
}

Span SpanAt(const v1::Spans& columns, std::size_t row) {
  const int i = static_cast<int>(row);
  Span span;
  span.kind = static_cast<SpanKind>(std::min<std::uint32_t>(columns.kind(i), kSpanKinds));
  span.begin = FromNanoseconds(columns.begin(i));
  span.end = FromNanoseconds(columns.end(i));
  span.lane = columns.lane(i);
  span.session = SessionId({columns.session_term(i), columns.session_n(i)});
  span.epoch = columns.epoch(i);
  span.example = columns.example(i);
  span.bytes = columns.bytes(i);
  span.detail = columns.detail(i);
  return span;
}

std::string_view NameOf(const v1::Spans& columns, const Span& span) {
  if (!HasName(span.kind)) return {};
  if (span.detail >= static_cast<std::uint32_t>(columns.names_size())) return {};
  return columns.names(static_cast<int>(span.detail));
}

}  // namespace millrace
