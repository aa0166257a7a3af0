#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "server/plan/order/bounds.h"
#include "server/plan/order/classes.h"
#include "tests/bench/heap.h"
#include "tests/bench/orders.h"

namespace millrace::bench {
namespace {

using Values = std::vector<std::int64_t>;

/// The product of three random numbers, so that small values are common and large ones rare.
std::int64_t HeavyTail(std::uint64_t random, std::uint64_t most) {
  const std::uint64_t product = Scaled(random, most);
  const std::uint64_t smaller = Scaled(generator::Mix(random), product + 1);
  return static_cast<std::int64_t>(1 + Scaled(generator::Mix(random, 1), smaller + 1));
}

/// Lengths as they occur: few are distinct.
void FillLengths(Values& values) {
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = HeavyTail(generator::Mix(i), 4096);
  }
}

/// Almost all values are distinct, so that they have to be grouped.
void FillDistinct(Values& values) {
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = HeavyTail(generator::Mix(i), ValueHistogram::kMaxValue - 1);
  }
}

/// Runs of equal values, as the examples of one file may have.
void FillRuns(Values& values) {
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = HeavyTail(generator::Mix(i / 100), 4096);
  }
}

/// Calls `add` with all values, as many at once as a pass over columns reads.
template <class Add>
void ForPieces(const Values& values, const Add& add) {
  constexpr std::size_t kPiece = 1024;
  for (std::size_t first = 0; first < values.size(); first += kPiece) {
    add(std::span(values).subspan(first, std::min(kPiece, values.size() - first)));
  }
}

/// The share of padded data that is padding, if each value is padded to the smallest bound that is
/// not below it. Each value counts as the largest of its group. REQUIRES: ascending bounds, and no
/// value above the last one.
double PaddingWaste(const ValueHistogram& histogram, std::span<const std::uint64_t> bounds) {
  double padded = 0;
  double values = 0;
  for (const ValueHistogram::Entry& entry : histogram.Entries()) {
    const auto count = static_cast<double>(entry.count);
    padded += count * static_cast<double>(*std::ranges::lower_bound(bounds, entry.largest));
    values += count * static_cast<double>(entry.largest);
  }
  return padded == 0 ? 0 : (padded - values) / padded;
}

/// The bytes an example that the heap holds more than before.
class HeapSince {
 public:
  double BytesOf(std::uint64_t examples) const {
    return static_cast<double>(Heap::held() - before_) / static_cast<double>(examples);
  }

 private:
  std::uint64_t before_ = Heap::held();
};

class Buckets {
 public:
  Buckets(const OrderOptions& options, const Report& report)
      : options_(options), report_(report), values_(options.examples) {}

  void Run() {
    FillDistinct(values_);
    MeasureHistogram("distinct values");
    FillRuns(values_);
    MeasureHistogram("runs of lengths");
    FillLengths(values_);
    const std::vector<std::uint64_t> bounds = MeasureHistogram("lengths");
    MeasureClasses(bounds);
    report_.Note(fmt::format("checksum {:016x}", checksum_));
  }

 private:
  void Add(const std::string& name, double value, const char* unit, const char* limit_name = "",
           double limit = 0, Figure::Params params = {}) const {
    report_.Add({name, value, unit, limit_name, limit, std::move(params)});
  }

  /// The limit of a pass: adding the values up.
  double SecondsOfSum() {
    return SecondsOf([&] {
      checksum_ += static_cast<std::uint64_t>(
          std::accumulate(values_.begin(), values_.end(), std::int64_t{0}));
    });
  }

  std::vector<std::uint64_t> MeasureHistogram(const std::string& of) {
    const HeapSince heap;
    ValueHistogram histogram;
    const double seconds = SecondsOf([&] {
      ForPieces(values_, [&](std::span<const std::int64_t> piece) { histogram.Add(piece); });
    });
    const std::string entries = fmt::format("{}", histogram.Entries().size());
    Add("histogram of " + of, seconds, "s", "adding up", SecondsOfSum(), {{"entries", entries}});
    Add("histogram of " + of + ": memory", heap.BytesOf(options_.examples), "B/example");
    std::vector<std::uint64_t> bounds;
    const double choosing = SecondsOf([&] { bounds = BestBounds(histogram, options_.classes); });
    Add(fmt::format("{} bounds of {}", bounds.size(), of), choosing, "s", "", 0,
        {{"entries", entries}, {"waste", fmt::format("{:.4f}", PaddingWaste(histogram, bounds))}});
    for (const std::uint64_t bound : bounds) checksum_ = generator::Mix(checksum_, bound);
    return bounds;
  }

  void MeasureClasses(const std::vector<std::uint64_t>& bounds) {
    ClassCounter counter(bounds);
    const double counting = SecondsOf([&] {
      ForPieces(values_, [&](std::span<const std::int64_t> piece) { counter.Add(piece); });
    });
    Add("classes: counting", counting, "s", "adding up", SecondsOfSum());
    const HeapSince heap;
    Result<Classes> classes = Internal("not built");
    const double building = SecondsOf([&] {
      Classes::Builder builder(bounds, counter.counts(), options_.examples);
      ForPieces(values_, [&](std::span<const std::int64_t> piece) { builder.Add(piece); });
      classes = std::move(builder).Build();
    });
    if (!classes.ok()) {
      fmt::print(stderr, "{}\n", classes.status().ToString());
      std::exit(1);
    }
    const double bytes = heap.BytesOf(options_.examples);
    Add("classes: building", building, "s", "adding up", SecondsOfSum());
    Add("classes: memory", bytes, "B/example");
    MeasureQuestions(*classes,
                     static_cast<std::uint64_t>(bytes * static_cast<double>(options_.examples)));
  }

  void MeasureQuestions(const Classes& classes, std::uint64_t bytes) {
    std::vector<std::uint64_t> array(bytes / 8 + 1);
    std::iota(array.begin(), array.end(), 0);
    const auto read = [&](std::uint64_t r) { return array[Scaled(r, array.size())]; };
    const auto select = [&](std::uint64_t r) {
      const std::size_t c = Scaled(r, classes.size());
      return classes.Select(c, Scaled(generator::Mix(r), classes.count(c)));
    };
    MeasureSelect<false>("select at random", read, select);
    MeasureSelect<true>("select at random, one by one", read, select);
    const double find =
        NanosecondsOf<false>(options_.calls / 16 + 1, checksum_, [&](std::uint64_t r) {
          const auto member = classes.ClassOf(Scaled(r, options_.examples));
          return member ? member->i : 0;
        });
    Add("class of a row at random", find, "ns");
  }

  template <bool kChained, class Read, class Select>
  void MeasureSelect(const std::string& name, const Read& read, const Select& select) {
    const double limit = NanosecondsOf<kChained>(options_.calls, checksum_, read);
    Add(name, NanosecondsOf<kChained>(options_.calls, checksum_, select), "ns", "reading an array",
        limit);
  }

  const OrderOptions& options_;
  const Report& report_;
  Values values_;
  std::uint64_t checksum_ = 0;
};

}  // namespace

void MeasureBuckets(const OrderOptions& options, const Report& report) {
  Buckets(options, report).Run();
}

}  // namespace millrace::bench
