// Spans of a trace as the columns of a message, and back.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/time.h"
#include "common/base/span.h"
#include "millrace/v1/trace.pb.h"

namespace millrace {

/// A moment as messages about traces have it.
std::uint64_t ToNanoseconds(Time time);

void AppendTo(v1::Spans& columns, const Span& span);
/// Rows beyond the shortest column are not counted.
std::size_t SpanCount(const v1::Spans& columns);
/// A kind that this program does not know becomes kSpanKinds. REQUIRES: row < SpanCount(columns).
Span SpanAt(const v1::Spans& columns, std::size_t row);

}  // namespace millrace
