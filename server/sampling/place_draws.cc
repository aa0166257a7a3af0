#include "server/sampling/place_draws.h"

#include <algorithm>
#include <bit>

#include "server/sampling/eight_draws.h"
#include "server/sampling/philox.h"

namespace millrace {
namespace {

/// The random words of one row.
class RowWords {
 public:
  RowWords(const DrawnRow& row, const DrawOptions& options)
      : key_(options.key), counter_{0, row.number, options.relation, options.hop} {}

  std::uint32_t Next() {
    if (at_ == words_.size()) {
      words_ = Philox4x32(key_, counter_);
      ++counter_[0];
      at_ = 0;
    }
    return words_[at_++];
  }

  /// A number of [0, m).
  std::uint32_t Below(std::uint32_t m) {
    std::uint64_t product = std::uint64_t{Next()} * m;
    if (static_cast<std::uint32_t>(product) < m) {
      const std::uint32_t least = -m % m;  // 2^32 mod m
      while (static_cast<std::uint32_t>(product) < least) product = std::uint64_t{Next()} * m;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint64_t key_;
  PhiloxCounter counter_;
  PhiloxWords words_{};
  std::size_t at_ = 4;
};

/// With so few places it is faster to look at all of them than to keep a table.
constexpr std::uint32_t kMostLookedAt = 64;

}  // namespace

void PlaceDraws::DrawRow(const DrawnRow& row, const DrawOptions& options, std::uint32_t* places) {
  RowWords words(row, options);
  const std::uint32_t f = options.fanout;
  if (options.replace) {
    for (std::uint32_t i = 0; i < f; ++i) places[i] = words.Below(row.entries);
  } else if (f <= kMostLookedAt) {
    for (std::uint32_t i = 0; i < f; ++i) {
      const std::uint32_t j = row.entries - f + i;
      const std::uint32_t t = words.Below(j + 1);
      places[i] = std::find(places, places + i, t) == places + i ? t : j;
    }
  } else {
    const std::size_t mask = std::bit_ceil(std::size_t{f} * 2) - 1;
    table_.assign(mask + 1, 0);
    const auto slot_of = [&](std::uint32_t place) {
      std::size_t slot = (place * 0x9E3779B1U) & mask;
      while (table_[slot] != 0 && table_[slot] != place + 1) slot = (slot + 1) & mask;
      return slot;
    };
    for (std::uint32_t i = 0; i < f; ++i) {
      const std::uint32_t j = row.entries - f + i;
      std::uint32_t chosen = words.Below(j + 1);
      if (table_[slot_of(chosen)] != 0) chosen = j;
      table_[slot_of(chosen)] = chosen + 1;
      places[i] = chosen;
    }
  }
  std::sort(places, places + f);
}

void PlaceDraws::DrawPlainly(std::span<const DrawnRow> rows, const DrawOptions& options,
                             std::uint32_t* places) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    DrawRow(rows[i], options, places + i * options.fanout);
  }
}

void PlaceDraws::Draw(std::span<const DrawnRow> rows, const DrawOptions& options,
                      std::uint32_t* places) {
  if (options.fanout > internal::kMostEightDraws || !internal::HasEightDraws()) {
    DrawPlainly(rows, options, places);
    return;
  }
  again_.clear();
  internal::DrawEights(rows, options, places, again_);
  // A word had to be left out, which happens less than once in 2^32 / entries draws.
  for (const std::uint32_t row : again_) {
    DrawRow(rows[row], options, places + std::size_t{row} * options.fanout);
  }
}

}  // namespace millrace
