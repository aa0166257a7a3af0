#include "server/pipeline/neighbors/place_draws.h"

#include <algorithm>
#include <array>
#include <bit>

#include "server/pipeline/neighbors/eight_draws.h"
#include "server/pipeline/neighbors/philox.h"

namespace millrace {
namespace {

/// The random words of one row.
class RowWords {
 public:
  RowWords(const DrawnRow& row, const DrawOptions& options)
      : key_(options.key), counter_{0, row.number, row.relation, options.hop} {}

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

void PlaceDraws::DrawEight(std::span<const DrawnRow, 8> rows, const DrawOptions& options,
                           std::uint32_t* places) {
  std::uint32_t again = internal::DrawEight(rows, options, places);
  // A word had to be left out, which happens about once in 2^32 / entries draws.
  for (; again != 0; again &= again - 1) {
    const auto row = static_cast<std::size_t>(std::countr_zero(again));
    DrawRow(rows[row], options, places + row * options.fanout);
  }
}

void PlaceDraws::Draw(std::span<const DrawnRow> rows, const DrawOptions& options,
                      std::uint32_t* places) {
  if (options.fanout > internal::kMostEightDraws || !internal::HasEightDraws()) {
    DrawPlainly(rows, options, places);
    return;
  }
  std::size_t done = 0;
  for (; done + 8 <= rows.size(); done += 8) {
    DrawEight(rows.subspan(done).first<8>(), options, places + done * options.fanout);
  }
  if (done == rows.size()) return;
  // Eight are not slower than one, so the last rows are made eight.
  const std::span<const DrawnRow> rest = rows.subspan(done);
  std::array<DrawnRow, 8> eight;
  std::fill(std::copy(rest.begin(), rest.end(), eight.begin()), eight.end(), rest[0]);
  std::array<std::uint32_t, 8 * internal::kMostEightDraws + kDrawSlack> drawn;
  DrawEight(eight, options, drawn.data());
  std::copy_n(drawn.data(), rest.size() * options.fanout, places + done * options.fanout);
}

}  // namespace millrace
