// What a place of each order costs if an epoch is read in sequence, in batches of 512 units, as a
// worker reads it. The limit is 150 ns a place, whatever the order; the permutation alone is
// measured beside them.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "server/plan/order/balance_order.h"
#include "server/plan/order/bounds.h"
#include "server/plan/order/bucket_order.h"
#include "server/plan/order/classes.h"
#include "server/plan/order/mix_order.h"
#include "server/plan/order/place_order.h"
#include "tests/bench/orders.h"

namespace millrace::bench {
namespace {

constexpr double kLimit = 150;  // ns a place

/// From 1 to 4,096; small ones are common.
std::uint64_t Length(std::uint64_t row) {
  return 1 + Scaled(generator::Mix(row), 1 + Scaled(generator::Mix(row, 1), 4096));
}

class Lengths final : public RowValues {
 public:
  void Read(std::span<const std::uint64_t> rows, std::span<std::uint64_t> values) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) values[i] = Length(rows[i]);
  }
};

/// Nanoseconds a row of an epoch, read until there are enough.
double NanosecondsOfRow(const Order& order, std::uint64_t calls, std::uint64_t& checksum) {
  const auto at_once = static_cast<std::uint32_t>(
      order.unit_is_batch() ? 1 : std::min<std::uint64_t>(512, order.units()));
  const auto reader = order.NewReader();
  std::vector<OrderRow> rows;
  std::uint64_t read = 0;
  std::uint64_t unit = 0;
  const double seconds = SecondsOf([&] {
    while (read < calls) {
      if (unit + at_once > order.units()) unit = 0;
      rows.clear();
      reader->Rows(1, {unit, at_once}, rows);
      unit += at_once;
      read += rows.size();
      for (const OrderRow& row : rows) checksum += row.row;
    }
  });
  return 1e9 * seconds / static_cast<double>(read);
}

BucketOrder MakeBucketOrder(std::uint64_t n, std::size_t count) {
  std::vector<std::int64_t> piece;
  const auto for_pieces = [&](const auto& add) {
    for (std::uint64_t row = 0; row < n; ++row) {
      piece.push_back(static_cast<std::int64_t>(Length(row)));
      if (piece.size() < 4096 && row + 1 < n) continue;
      add(std::span<const std::int64_t>(piece));
      piece.clear();
    }
  };
  ValueHistogram histogram;
  for_pieces([&](auto some) { histogram.Add(some); });
  const std::vector<std::uint64_t> bounds = BestBounds(histogram, count);
  const std::vector<std::uint64_t> counts = BucketCounts(histogram, bounds);
  Classes::Builder builder(bounds, counts, n);
  for_pieces([&](auto some) { builder.Add(some); });
  BucketOrder::Options options;
  for (const std::uint64_t bound : bounds) {
    options.sizes.push_back(static_cast<std::uint32_t>(std::max<std::uint64_t>(1, 65'536 / bound)));
  }
  options.keep = true;
  options.seed = 1;
  return BucketOrder(std::make_shared<const Classes>(std::move(builder).Build().value()),
                     std::move(options));
}

}  // namespace

void MeasurePlaces(const OrderOptions& options, const Report& report) {
  const std::uint64_t n = options.examples;
  std::uint64_t checksum = 0;
  const auto measure = [&](const std::string& what, const Order& order) {
    report.Add({"a place of " + what,
                NanosecondsOfRow(order, options.calls, checksum),
                "ns",
                "150 ns",
                kLimit,
                {}});
  };
  measure("the plain order", ExampleOrder(PlaceOrder(n, 1)));
  measure("blocks of 1,024, 16 a window", ExampleOrder(PlaceOrder(n, 1, 1024, 16)));
  measure(fmt::format("{} buckets", options.classes), MakeBucketOrder(n, options.classes));
  std::vector<PlaceOrder> branches = {PlaceOrder(n, DeriveSeed(1, "branch", 0)),
                                      PlaceOrder(n, DeriveSeed(1, "branch", 1)),
                                      PlaceOrder(n, DeriveSeed(1, "branch", 2))};
  const auto mix =
      MixOrder::Make(std::move(branches), {.weights = {7, 2, 1}, .seed = 3, .all_of = 0});
  measure("a mix 7 to 2 to 1", **mix);
  for (const std::uint32_t size : {32u, 512u}) {
    if (n < 64 * size) continue;
    measure(fmt::format("batches of {} balanced in groups of 64, dealt and values computed", size),
            BalanceOrder(PlaceOrder(n, 1), std::make_shared<Lengths>(),
                         {.size = size, .group = 64, .keep = false}));
  }
  report.Note(fmt::format("checksum of places {:016x}", checksum));
}

}  // namespace millrace::bench
