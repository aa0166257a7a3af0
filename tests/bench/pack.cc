// Measures what packing documents into rows costs: counting all rows once, packing a window, and
// finding the pieces of a row. Lengths are log-normal. Limits are measured in the same run: one
// pass over the same lengths, and sorting those of a window.
//
// Every result enters the checksum, which is printed.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/command_line/command_line.h"
#include "server/plan/pack/layout_bytes.h"
#include "server/plan/pack/length_sums.h"
#include "server/plan/pack/make_layout.h"
#include "server/plan/pack/pack_rows.h"
#include "server/plan/pack/window_packer.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/processor.h"
#include "tests/bench/report.h"

namespace millrace {
namespace {

struct Options {
  std::uint64_t documents = 8'000'000;
  double mean = 600;
  double sigma = 1.2;
  std::uint64_t size = 4096;
  std::uint64_t window = 4096;
  std::uint64_t calls = 2000;
  bool json = false;
};

/// Lengths in memory, as narrow as a kept column has them.
class MadeUpLengths final : public DocumentLengths {
 public:
  explicit MadeUpLengths(const Options& options) {
    std::mt19937_64 random(1);
    std::lognormal_distribution<double> lengths(
        std::log(options.mean) - options.sigma * options.sigma / 2, options.sigma);
    lengths_.reserve(options.documents);
    for (std::uint64_t i = 0; i < options.documents; ++i) {
      lengths_.push_back(static_cast<std::uint32_t>(std::clamp(lengths(random), 1.0, 4e9)));
    }
  }

  std::uint64_t documents() const override { return lengths_.size(); }
  void Read(std::uint64_t first, std::span<std::uint64_t> lengths) const override {
    const auto begin = lengths_.begin() + static_cast<std::ptrdiff_t>(first);
    std::copy_n(begin, lengths.size(), lengths.begin());
  }
  std::span<const std::uint32_t> all() const { return lengths_; }

 private:
  std::vector<std::uint32_t> lengths_;
};

template <class Call>
double SecondsOf(const Call& call) {
  const double began = bench::ThreadCpuSeconds();
  call();
  return bench::ThreadCpuSeconds() - began;
}

class PackBench {
 public:
  explicit PackBench(const Options& options)
      : options_(options),
        report_(options.json),
        lengths_(std::make_shared<const MadeUpLengths>(options)) {}

  void Run() {
    report_.Note(fmt::format("{}, 1 thread, {} documents of {} elements on average (sigma {})",
                             bench::Processor(), options_.documents, options_.mean,
                             options_.sigma));
    const double pass = PassNanoseconds();
    MeasureLayout(PackMethod::kConcat, "concat", pass);
    MeasureLayout(PackMethod::kFit, "fit", pass);
    MeasureWindows();
    MeasureRows(PackMethod::kConcat, "concat");
    MeasureRows(PackMethod::kFit, "fit");
    report_.Note(fmt::format("checksum {:016x}", checksum_));
  }

 private:
  PackOptions Pack(PackMethod method) const {
    return {options_.size, method, PackAbove::kSplit, options_.window};
  }
  std::shared_ptr<const PackLayout> Layout(PackMethod method) const {
    return std::make_shared<const PackLayout>(
        MakePackLayout(*lengths_, Pack(method), {.threads = 1}).value());
  }
  void Add(std::string name, double value, std::string unit, std::string limit_name = "",
           double limit = 0) const {
    report_.Add(
        {std::move(name),
         value,
         std::move(unit),
         std::move(limit_name),
         limit,
         {{"size", std::to_string(options_.size)}, {"window", std::to_string(options_.window)}}});
  }

  /// Nanoseconds a document of reading and adding all lengths.
  double PassNanoseconds() {
    std::vector<std::uint64_t> some(16384);
    const double seconds = SecondsOf([&] {
      for (std::uint64_t at = 0; at < options_.documents; at += some.size()) {
        some.resize(std::min<std::uint64_t>(16384, options_.documents - at));
        lengths_->Read(at, some);
        checksum_ += AddLengths(some);
      }
    });
    return 1e9 * seconds / static_cast<double>(options_.documents);
  }

  void MeasureLayout(PackMethod method, const std::string& name, double pass) {
    std::shared_ptr<const PackLayout> layout;
    const double seconds = SecondsOf([&] { layout = Layout(method); });
    const auto documents = static_cast<double>(options_.documents);
    const auto rows = static_cast<double>(layout->rows());
    checksum_ += layout->rows() * 31 + layout->totals().pieces;
    Add(name + ": counting a document", 1e9 * seconds / documents, "ns", "one pass over lengths",
        pass);
    Add(name + ": padding of all rows",
        100 * static_cast<double>(layout->padding()) / (rows * static_cast<double>(options_.size)),
        "%");
    const std::vector<std::byte> bytes = EncodePackLayout(*layout, Digest128{1, 2});
    checksum_ += bytes.size();
    Add(name + ": layout in memory, 10^8 documents",
        1e8 * static_cast<double>(layout->bytes()) / documents / 1e6, "MB");
    Add(name + ": layout in a file, 10^8 documents",
        1e8 * static_cast<double>(bytes.size()) / documents / 1e6, "MB");
  }

  /// Packing windows, each another one.
  void MeasureWindows() {
    const PackWindows windows(options_.documents, options_.window);
    WindowPacker packer(Pack(PackMethod::kFit));
    std::vector<double> packing;
    std::vector<double> sorting;
    std::vector<std::uint64_t> lengths;
    double bytes = 0;
    for (std::uint64_t w = 0; w < std::min(windows.size(), options_.calls); ++w) {
      lengths.resize(windows.Begin(w + 1) - windows.Begin(w));
      lengths_->Read(windows.Begin(w), lengths);
      std::shared_ptr<const PackedWindow> packed;
      packing.push_back(SecondsOf([&] { packed = packer.Pack(windows.Begin(w), lengths); }));
      checksum_ = checksum_ * 31 + packed->size();
      bytes += static_cast<double>(packed->bytes());
      sorting.push_back(SecondsOf([&] { std::sort(lengths.begin(), lengths.end()); }));
      checksum_ += lengths.front();
    }
    bytes /= static_cast<double>(packing.size());
    std::sort(packing.begin(), packing.end());
    std::sort(sorting.begin(), sorting.end());
    const auto at = [](const std::vector<double>& sorted, std::size_t percent) {
      return 1e6 * sorted[sorted.size() * percent / 100];
    };
    Add("fit: packing a window, p50", at(packing, 50), "us", "std::sort of lengths",
        at(sorting, 50));
    Add("fit: packing a window, p99", at(packing, 99), "us", "std::sort of lengths",
        at(sorting, 99));
    Add("fit: a packed window", bytes / 1e3, "kB");
  }

  /// Rows at random without a cache, and in order with one.
  void MeasureRows(PackMethod method, const std::string& name) {
    const std::shared_ptr<const PackLayout> layout = Layout(method);
    std::mt19937_64 random(2);
    std::vector<Piece> pieces;
    const auto take = [&](const PackRows& rows, std::uint64_t row) {
      pieces.clear();
      if (!rows.AppendPieces(row, pieces).ok()) std::abort();
      for (const Piece& piece : pieces) checksum_ += piece.document ^ piece.length;
    };
    const auto rows = PackRows::Make(layout, lengths_, 0);
    const double at_random = SecondsOf([&] {
      for (std::uint64_t i = 0; i < options_.calls; ++i) take(*rows, random() % layout->rows());
    });
    Add(name + ": a row at random, nothing kept",
        1e6 * at_random / static_cast<double>(options_.calls), "us");
    const std::uint64_t some = std::min(layout->rows(), 1000 * options_.calls);
    const double in_order = SecondsOf([&] {
      for (std::uint64_t row = 0; row < some; ++row) take(*rows, row);
    });
    Add(name + ": a row in order, one group kept", 1e6 * in_order / static_cast<double>(some),
        "us");
    std::vector<RowColumns> columns(1024);
    const double of_columns = SecondsOf([&] {
      for (std::uint64_t row = 0; row < some; row += columns.size()) {
        columns.resize(std::min<std::uint64_t>(columns.size(), some - row));
        if (!rows->ReadColumns(row, columns).ok()) std::abort();
        checksum_ += columns.back().squares;
      }
    });
    Add(name + ": columns of a row, in order", 1e6 * of_columns / static_cast<double>(some), "us");
  }

  const Options options_;
  const bench::Report report_;
  const std::shared_ptr<const MadeUpLengths> lengths_;
  std::uint64_t checksum_ = 0;
};

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  millrace::CommandLine app("Measures what packing documents into rows costs.", argv[0]);
  app.AddOption("--documents", &options.documents, "number of documents")
      .Between(1, 4e9)
      .ShowDefault();
  app.AddOption("--mean", &options.mean, "mean length of a document").Positive().ShowDefault();
  app.AddOption("--sigma", &options.sigma, "sigma of the logarithm of the lengths").ShowDefault();
  app.AddOption("--size", &options.size, "elements of a row")
      .Between(std::uint64_t{1}, millrace::kMaxPackSize)
      .ShowDefault();
  app.AddOption("--window", &options.window, "documents that are packed together")
      .Between(std::uint64_t{1}, millrace::kMaxPackWindow)
      .ShowDefault();
  app.AddOption("--calls", &options.calls, "windows and rows measured each")
      .Positive()
      .ShowDefault();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  millrace::PackBench(options).Run();
  return 0;
}
