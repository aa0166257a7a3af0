// Converts spans of a trace to the columns of a message, and back.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/span.h"
#include "common/base/time.h"
#include "millrace/v1/trace.pb.h"

namespace millrace {

/// A moment in the form that messages about traces use.
std::uint64_t ToNanoseconds(Time time);

void AppendTo(v1::Spans& columns, const Span& span);
/// The number of complete rows. Rows beyond the end of the shortest column do not count.
std::size_t SpanCount(const v1::Spans& columns);
/// A kind that this program does not know becomes kSpanKinds. REQUIRES: row < SpanCount(columns).
Span SpanAt(const v1::Spans& columns, std::size_t row);
/// The name of a span whose kind has names; empty if it has no name. The view lives as long as
/// `columns`.
std::string_view NameOf(const v1::Spans& columns, const Span& span);

}  // namespace millrace
