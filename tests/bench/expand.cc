// Measures the steps of a batch between closure and tensors: filling and sealing it, parsing,
// hashing and expanding it. The same run measures memcpy of as many bytes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "common/command_line/command_line.h"
#include "common/expand/expand.h"
#include "tests/bench/made_up.h"
#include "tests/bench/processor.h"
#include "tests/bench/report.h"

namespace millrace {
namespace {

struct Options {
  bench::MadeUp made_up;
  std::uint32_t rounds = 20;  // each goes over all batches
  std::string symmetrization = "bidirectional";
  bool self_edges = true;
  bool json = false;
};

/// Times of one kind of work, one for each batch. Rates are those of the median batch, so that
/// other work on the machine changes them little.
class Measure {
 public:
  explicit Measure(std::string name) : name_(std::move(name)) {}

  /// Runs `work`, which returns the number of bytes that it wrote or read.
  void Run(const std::function<std::uint64_t()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    bytes_ += work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds_.push_back(took.count());
  }

  double gigabytes_a_second() const {
    return static_cast<double>(bytes_) / static_cast<double>(seconds_.size()) / At(0.5) / 1e9;
  }

  void Add(const bench::Report& report, std::uint32_t examples, double limit) const {
    const bench::Figure::Params params = {{"batch", std::to_string(examples)}};
    report.Add({name_ + ", bytes", gigabytes_a_second(), "GB/s", "memcpy of as many bytes", limit,
                params});
    report.Add({name_ + ", examples", examples / At(0.5) / 1e6, "M examples/s", "", 0, params});
  }

  void Print(std::uint32_t examples, double limit) const {
    std::printf("%-16s %8.2f %8.2f %8.1f %8.1f %9.0f %%\n", name_.c_str(), examples / At(0.5) / 1e6,
                gigabytes_a_second(), At(0.5) * 1e6, At(0.99) * 1e6,
                100 * gigabytes_a_second() / limit);
  }

 private:
  double At(double quantile) const {
    std::vector<double> sorted = seconds_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(quantile * static_cast<double>(sorted.size() - 1))];
  }

  std::string name_;
  std::uint64_t bytes_ = 0;
  std::vector<double> seconds_;
};

Status Bench(const Options& options) {
  ExpandSpec expand{30, Symmetrization::kBidirectional, options.self_edges};
  if (options.symmetrization == "none") expand.symmetrization = Symmetrization::kDirected;
  if (options.symmetrization == "undirected") expand.symmetrization = Symmetrization::kUndirected;
  const std::vector<bench::Example> examples = bench::MakeExamples(options.made_up);
  BufferPool pool;
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer,
                            BatchWriter::Create(bench::Tensors(), expand, pool));

  Measure copy("memcpy");
  Measure fill("fill and seal");
  Measure hash("digest");
  Measure parse("parse");
  Measure narrow("expand to int32");
  Measure wide("expand to int64");
  std::uint64_t check = 0;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    for (std::uint32_t b = 0; b < options.made_up.batches; ++b) {
      const std::size_t first = std::size_t{b} * options.made_up.examples;
      const auto own = std::span(examples).subspan(first, options.made_up.examples);
      Status status;
      const auto failed = [&](const auto& result) {
        if (!result.ok()) status = result.status();
        return !result.ok();
      };
      std::shared_ptr<const PackedBatch> packed;
      std::shared_ptr<const DeliveredBatch> delivered;
      fill.Run([&]() -> std::uint64_t {
        const auto sealed = bench::Pack(writer, own, first);
        if (failed(sealed)) return 0;
        packed = *sealed;
        return packed->bytes().size();
      });
      MILLRACE_RETURN_IF_ERROR(status);
      hash.Run([&] {
        check = check * 31 + packed->digest().low;
        return packed->bytes().size();
      });
      parse.Run([&]() -> std::uint64_t {
        const auto parsed = PackedBatch::Parse(packed->bytes(), packed);
        if (failed(parsed)) return 0;
        return packed->bytes().size();
      });
      for (const DType dtype : {DType::kInt64, DType::kInt32}) {
        (dtype == DType::kInt32 ? narrow : wide).Run([&]() -> std::uint64_t {
          const auto expanded = Expand(*packed, dtype, pool);
          if (failed(expanded)) return 0;
          delivered = *expanded;
          return delivered->bytes().size();
        });
        MILLRACE_RETURN_IF_ERROR(status);
        check = check * 31 + Xxh3_64(delivered->bytes());
      }
      MILLRACE_ASSIGN_OR_RETURN(const auto target, pool.Acquire(delivered->bytes().size()));
      copy.Run([&] {
        std::memcpy(target->data(), delivered->bytes().data(), delivered->bytes().size());
        return delivered->bytes().size();
      });
      check = check * 31 + Xxh3_64(target->bytes());
    }
  }
  const double limit = copy.gigabytes_a_second();
  const auto measures = {&copy, &fill, &hash, &parse, &narrow, &wide};
  if (options.json) {
    for (const Measure* m : measures) {
      if (m != &copy) m->Add(bench::Report(true), options.made_up.examples, limit);
    }
    return OkStatus();
  }
  std::printf("%s; one thread; %u batches of %u examples, %u nodes on average, %u rounds; %s%s\n",
              bench::Processor().c_str(), options.made_up.batches, options.made_up.examples,
              options.made_up.nodes, options.rounds, options.symmetrization.c_str(),
              options.self_edges ? ", self edges" : "");
  std::printf("%-16s %8s %8s %8s %8s %11s\n", "per batch", "M ex/s", "GB/s", "p50 us", "p99 us",
              "of memcpy");
  for (const Measure* m : measures) m->Print(options.made_up.examples, limit);
  std::printf("checksum %016llx; buffers taken from the system: %llu\n",
              static_cast<unsigned long long>(check),
              static_cast<unsigned long long>(pool.stats().allocations));
  return OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  millrace::CommandLine app(
      "Fill, seal, parse and expand random batches; GB/s of what each step writes or reads",
      argv[0]);
  app.ShowDefaults();
  millrace::bench::AddOptions(app, options.made_up);
  app.AddOption("--rounds", &options.rounds, "times over all batches").Positive();
  app.AddOption("--symmetrization", &options.symmetrization, "how edges are completed")
      .OneOf({"none", "undirected", "bidirectional"});
  app.AddOption("--self-edges", &options.self_edges, "add self edges");
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::Bench(options);
  if (!status.ok()) std::fprintf(stderr, "bench_expand: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
