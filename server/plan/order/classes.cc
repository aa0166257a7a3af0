#include "server/plan/order/classes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include <fmt/core.h>

namespace millrace {

ClassFinder::ClassFinder(std::span<const std::uint64_t> bounds)
    : size_(bounds.size()), bounds_(bounds.begin(), bounds.end()) {
  bounds_.resize(std::bit_ceil(size_ + 1) - 1, std::numeric_limits<std::uint64_t>::max());
}

ClassCounter::ClassCounter(std::span<const std::uint64_t> bounds)
    : finder_(bounds), counts_(bounds.size() + 1, 0) {}

void ClassCounter::Add(std::span<const std::int64_t> values) {
  for (const std::int64_t value : values) {
    ++counts_[finder_(value)];
    largest_ = std::max(largest_, value);
  }
}

Classes::Builder::Builder(std::span<const std::uint64_t> bounds,
                          std::span<const std::uint64_t> counts, std::uint64_t rows)
    : finder_(bounds), rows_(rows) {
  lists_.reserve(counts.size());
  for (const std::uint64_t count : counts) lists_.emplace_back(rows, std::min(count, rows));
}

void Classes::Builder::Add(std::span<const std::int64_t> values) {
  if (values.size() > rows_ - added_) {
    overflows_ = true;
    return;
  }
  for (const std::int64_t value : values) {
    const std::uint64_t row = added_++;
    const std::size_t c = finder_(value);
    if (c == finder_.size()) continue;
    EliasFano& list = lists_[c];
    if (list.full()) {
      overflows_ = true;
    } else {
      list.Append(row);
    }
  }
}

Result<Classes> Classes::Builder::Build() && {
  const auto full = [](const EliasFano& list) { return list.full(); };
  if (overflows_ || added_ != rows_ || !std::all_of(lists_.begin(), lists_.end(), full)) {
    return Aborted(
        fmt::format("the values of {} rows changed while they were put into {} classes; "
                    "try again",
                    rows_, lists_.size()));
  }
  for (EliasFano& list : lists_) list.Seal();
  return Classes(rows_, std::move(lists_));
}

std::optional<Classes::Member> Classes::ClassOf(std::uint64_t row) const {
  for (std::size_t c = 0; c < size(); ++c) {
    if (const std::optional<std::uint64_t> i = Find(c, row)) return Member{c, *i};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Classes::Find(std::size_t c, std::uint64_t row) const {
  if (row >= rows_) return std::nullopt;
  return lists_[c].Find(row);
}

}  // namespace millrace
