// Sums over the lengths of consecutive documents, without overflow.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/result.h"
#include "server/plan/pack/pack_totals.h"

namespace millrace {

/// The sum of lengths, and `before`, as which it begins. A result above kMaxPackElements stands for
/// any sum above. REQUIRES: before <= kMaxPackElements.
std::uint64_t AddLengths(std::span<const std::uint64_t> lengths, std::uint64_t before = 0);

/// The error for documents that have more than kMaxPackElements elements.
Status TooManyElements(std::uint64_t documents);

/// Adds what documents give with PackMethod::kConcat, without the rows: those that are empty, their
/// pieces and elements. The first element of the first document is the element `at` of all.
/// REQUIRES: size > 0; at + the sum of lengths <= kMaxPackElements.
void AddConcat(std::span<const std::uint64_t> lengths, std::uint64_t size, std::uint64_t at,
               PackTotals& totals);

}  // namespace millrace
