#include "server/plan/order/elias_fano.h"

#include <algorithm>
#include <array>
#include <bit>

#include "common/base/ask_for_line.h"

namespace millrace {
namespace {

/// floor(log2(limit / capacity)), or 0 without numbers.
unsigned LowWidth(std::uint64_t limit, std::uint64_t capacity) {
  const std::uint64_t each = limit / std::max<std::uint64_t>(capacity, 1);
  return static_cast<unsigned>(std::bit_width(std::max<std::uint64_t>(each, 1))) - 1;
}

}  // namespace

EliasFano::EliasFano(std::uint64_t limit, std::uint64_t capacity)
    : capacity_(capacity),
      low_width_(LowWidth(limit, capacity)),
      low_mask_((std::uint64_t{1} << low_width_) - 1),
      high_(capacity + (limit >> low_width_) + 1),
      low_(capacity * low_width_ / 64 + 2, 0) {}

void EliasFano::SelectAll(std::span<std::uint64_t> numbers) const {
  constexpr std::size_t kAtOnce = RankedBitmap::kAtOnce;
  std::array<std::uint64_t, kAtOnce> members;
  for (; !numbers.empty(); numbers = numbers.subspan(std::min(kAtOnce, numbers.size()))) {
    const std::span<std::uint64_t> some = numbers.first(std::min(kAtOnce, numbers.size()));
    for (const std::uint64_t i : some) AskForNearLine(&low_[i * low_width_ / 64]);
    std::copy(some.begin(), some.end(), members.begin());
    high_.SelectAll(std::span(members).first(some.size()));
    for (std::size_t k = 0; k < some.size(); ++k) {
      some[k] = (members[k] - some[k]) << low_width_ | Low(some[k]);
    }
  }
}

std::optional<std::uint64_t> EliasFano::Find(std::uint64_t number) const {
  // The numbers with the same high bits are those from `begin` to before `end`.
  const std::uint64_t high = number >> low_width_;
  const std::uint64_t low = number & low_mask_;
  std::uint64_t begin = high == 0 ? 0 : high_.SelectAbsent(high - 1) - (high - 1);
  const std::uint64_t end = high_.SelectAbsent(high) - high;
  std::uint64_t last = end;
  while (begin < last) {
    const std::uint64_t middle = begin + (last - begin) / 2;
    if (Low(middle) < low) {
      begin = middle + 1;
    } else {
      last = middle;
    }
  }
  if (begin == end || Low(begin) != low) return std::nullopt;
  return begin;
}

}  // namespace millrace
