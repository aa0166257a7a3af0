// How evenly `balance` loads ranks, what it costs, and how much padding buckets leave, over
// closures of a dataset as they occur: generated proofs, or those of --data. Loads are nodes of
// closures.
//
// A group is four batches of each rank. A step's load is that of its largest rank over the mean of
// all ranks, because ranks wait for one another. The mean over many steps is printed, without
// balance and with it. The cost is the time that a worker takes to find out which examples its
// batches have, beside the time that it takes to build them, both in turns on one thread.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/log.h"
#include "common/batch/batch.h"
#include "common/command_line/command_line.h"
#include "common/system/stderr_logger.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/generator/generator.h"
#include "server/plan/plan_library.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string data;
  std::string source = "proof_states";
  std::uint64_t nodes = 1'000'000;
  std::uint64_t examples = 100'000;
  std::uint64_t steps = 100;
  std::uint64_t buckets = 16;
  bool json = false;
};

/// A folder that is removed with all that is in it.
class Folder {
 public:
  Folder() {
    std::string path = (fs::temp_directory_path() / "millrace-balance-XXXXXX").string();
    if (::mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Result<std::shared_ptr<const Plan>> Compile(PlanLibrary& library, const Options& options,
                                            const std::string& order) {
  PipelineSource source;
  source.yaml = fmt::format("millrace: 1\ndataset: bench\nsource: {}\nshuffle: {{seed: 1}}\n{}",
                            options.source, order);
  return library.Compile(source);
}

/// The nodes of some rows.
std::vector<std::uint64_t> NodesOf(const RowValues& nodes, const std::vector<OrderRow>& rows) {
  std::vector<std::uint64_t> numbers;
  for (const OrderRow& row : rows) numbers.push_back(row.row);
  std::vector<std::uint64_t> values(numbers.size());
  nodes.Read(numbers, values);
  return values;
}

/// The largest rank's nodes over those of the mean rank, as the mean over some steps. The bound is
/// what no way to deal a step's examples can go below: a rank has the largest one and, because all
/// ranks have as many, at least the smallest others.
struct Load {
  double largest = 0;
  double bound = 0;
};

Result<Load> LargestOverMean(const Plan& plan, const RowValues& nodes, std::uint32_t ranks,
                             std::uint64_t most_steps) {
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan.facts().Steps(ranks));
  const std::uint64_t all = steps.StepsFrom(0);
  const std::uint64_t looked_at = std::min(all, most_steps);
  const auto reader = plan.planned_order().order->NewReader();
  Load load;
  for (std::uint64_t i = 0; i < looked_at; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const Position at, steps.StepAt(0, i * all / looked_at));
    double largest = 0;
    std::vector<std::uint64_t> all_values;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<OrderRow> rows;
      reader->Rows(at.epoch, steps.RankExamples(at, rank), rows);
      const std::vector<std::uint64_t> values = NodesOf(nodes, rows);
      largest = std::max(largest, std::accumulate(values.begin(), values.end(), 0.0));
      all_values.insert(all_values.end(), values.begin(), values.end());
    }
    const double mean = std::accumulate(all_values.begin(), all_values.end(), 0.0) / ranks;
    std::sort(all_values.begin(), all_values.end());
    const auto others = static_cast<std::ptrdiff_t>(all_values.size() / ranks) - 1;
    const double least = std::accumulate(all_values.begin(), all_values.begin() + others,
                                         static_cast<double>(all_values.back()));
    load.largest += largest / mean / static_cast<double>(looked_at);
    load.bound += std::max(1.0, least / mean) / static_cast<double>(looked_at);
  }
  return load;
}

/// What batches cost: to find their rows, and to build them without that.
struct Cost {
  double order = 0;
  double build = 0;
};

/// Builds so many batches, one after the other, of as many epochs as it takes.
Result<Cost> CostOf(const Plan& plan, std::uint64_t batches) {
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan.facts().Steps(1));
  const auto reader = plan.planned_order().order->NewReader();
  const auto scratch = plan.NewScratch();
  Cost cost;
  std::uint64_t checksum = 0;
  Position at{1, 0};
  for (std::uint64_t i = 0; i < batches; ++i, at = steps.Next(at)) {
    const ExampleRange units = steps.RankExamples(at, 0);
    std::vector<OrderRow> rows;
    const double began = ThreadCpuSeconds();
    reader->Rows(at.epoch, units, rows);
    const double found = ThreadCpuSeconds();
    std::vector<ExampleId> ids = plan.ExamplesOf(at.epoch, units);  // of a group dealt already
    const double building = ThreadCpuSeconds();
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, plan.BatchOf(ids, 0, *scratch));
    cost.build += ThreadCpuSeconds() - building;
    cost.order += found - began;
    checksum ^= batch->payload_hash().low;
  }
  if (checksum == 0) return Internal("no batch was built");
  return cost;
}

/// The share of padding in batches of `size` that are padded to their largest example.
double PlainPadding(const Order& order, const RowValues& nodes, std::uint64_t size) {
  const auto reader = order.NewReader();
  double sum = 0;
  double padded = 0;
  for (std::uint64_t first = 0; first + size <= order.units(); first += size) {
    std::vector<OrderRow> rows;
    reader->Rows(0, {first, static_cast<std::uint32_t>(size)}, rows);
    const std::vector<std::uint64_t> values = NodesOf(nodes, rows);
    sum += std::accumulate(values.begin(), values.end(), 0.0);
    padded += static_cast<double>(*std::max_element(values.begin(), values.end()) * size);
  }
  return 100 * (1 - sum / padded);
}

double BucketPadding(const PlannedOrder& planned) {
  double sum = 0;
  double padded = 0;
  for (const BucketFacts& facts : planned.buckets) {
    sum += static_cast<double>(facts.sum);
    padded += static_cast<double>(facts.bound) * static_cast<double>(facts.examples);
  }
  return 100 * (1 - sum / padded);
}

Status MeasureSize(PlanLibrary& library, const Options& options, std::uint64_t size,
                   const Report& report) {
  const std::string batch = fmt::format("batch: {{size: {}}}\n", size);
  MILLRACE_ASSIGN_OR_RETURN(const auto plain, Compile(library, options, batch));
  for (const std::uint32_t ranks : {8u, 64u}) {
    if (plain->counts().selected < size * ranks) {
      report.Note(fmt::format("{} examples are no step of {} ranks of {}", plain->counts().selected,
                              ranks, size));
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(
        const auto balanced,
        Compile(library, options,
                batch + fmt::format("balance: {{by: nodes, group: {}}}\n", 4 * ranks)));
    const RowValues& nodes = *balanced->planned_order().values;
    MILLRACE_ASSIGN_OR_RETURN(const Load before,
                              LargestOverMean(*plain, nodes, ranks, options.steps));
    MILLRACE_ASSIGN_OR_RETURN(const Load after,
                              LargestOverMean(*balanced, nodes, ranks, options.steps));
    report.Add({fmt::format("largest of {} ranks of {}", ranks, size),
                after.largest,
                "of the mean",
                "the least possible",
                after.bound,
                {{"without_balance", fmt::format("{:.3f}", before.largest)}}});
    MILLRACE_ASSIGN_OR_RETURN(
        const Cost cost, CostOf(*balanced, std::max<std::uint64_t>(4 * ranks, 131'072 / size)));
    report.Add({fmt::format("cost of balance, {} ranks of {}", ranks, size),
                100 * cost.order / cost.build,
                "% of building",
                "wanted at most",
                10,
                {}});
  }
  return OkStatus();
}

Status Run(const Options& options) {
  const Report report(options.json);
  const Folder folder;
  fs::path data = options.data;
  if (data.empty()) {
    data = folder.path() / "data";
    GeneratorReport made;
    MILLRACE_RETURN_IF_ERROR(
        GenerateDataset(data, {.nodes = options.nodes, .proof_states = options.examples}, &made));
  }
  PlanLibraryOptions library_options;
  library_options.kinds = ProductKinds();
  library_options.datasets["bench"] = {data, folder.path() / "index"};
  library_options.cache_dir = folder.path();
  PlanLibrary library(library_options, MakeStderrLogger("bench", LogLevel::kWarning, false));
  for (const std::uint64_t size : {32u, 512u}) {
    MILLRACE_RETURN_IF_ERROR(MeasureSize(library, options, size, report));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const auto bucket,
      Compile(library, options,
              fmt::format("batch: {{bucket: {{by: nodes, count: {}, budget: 65536}}, remainder: "
                          "keep}}\n",
                          options.buckets)));
  MILLRACE_ASSIGN_OR_RETURN(const auto plain, Compile(library, options, "batch: {size: 32}\n"));
  const PlannedOrder& planned = bucket->planned_order();
  report.Add({fmt::format("padding with {} buckets", planned.buckets.size()),
              BucketPadding(planned),
              "% of padded data",
              "batches of 32 at random",
              PlainPadding(*plain->planned_order().order, *planned.values, 32),
              {}});
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app("Measures how evenly balance loads ranks, and what it costs.", argv[0]);
  app.AddOption("--data", &options.data, "dataset of proofs (default: one is generated)");
  app.AddOption("--source", &options.source, "source of the examples").ShowDefault();
  app.AddOption("--nodes", &options.nodes, "nodes of a generated dataset").ShowDefault();
  app.AddOption("--examples", &options.examples, "proof states of a generated dataset")
      .ShowDefault();
  app.AddOption("--steps", &options.steps, "steps that are looked at").Positive().ShowDefault();
  app.AddOption("--buckets", &options.buckets, "batch.bucket.count").Between(1, 1024).ShowDefault();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_balance: {}\n", status.ToString());
  return 1;
}
