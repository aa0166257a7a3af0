// Measures neighbourhoods on one thread, over a graph whose degrees follow a power law: merged
// batches of 1,024 roots with fan-outs 15 and 10, and 128 float32 a node.
//
//   sampling    the graph of a batch, without features, against reads of random lines of `indices`
//   features    the same with the features of its nodes; the gathering against copies of random
//   rows worker      what a worker makes: sampled, gathered, packed and hashed end to end  worker
//   and expansion in turn
//
// Rates are over the CPU time of the thread, and count the edges of the graphs. The stages take
// turns, so that what else happens on the machine meets all of them.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "client/session.h"
#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "common/command_line/command_line.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/generator/rmat_generator.h"
#include "server/plan/plan_library.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/daemon.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string dir;  // empty: made up
  std::uint64_t nodes = 1'000'000;
  std::uint64_t edges = 15'000'000;
  std::uint32_t batch = 1024;
  double seconds = 10;         // for all stages
  std::uint32_t batches = 64;  // of each stage, in each round
  std::string millraced =
      MILLRACE_DAEMON;  // the daemon's program; empty: nothing is measured end to end
  bool in_memory = false;
  bool json = false;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Numbers that nobody can foresee, for places that are read.
class Places {
 public:
  /// REQUIRES: bound is below 2^32.
  std::uint64_t Below(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 32) * bound >> 32;
  }

 private:
  std::uint64_t state_ = 1;
};

std::string PipelineOf(const Options& options, bool features) {
  return fmt::format(
      "millrace: 1\ndataset: data\nsource: {{roots: train}}\nshuffle: {{seed: 1}}\n"
      "batch: {{size: {}}}\nclosure: {{kind: neighbors, fanout: [15, 10]}}\n{}",
      options.batch, features ? "features: [x]\n" : "");
}

/// A plan, and what a thread needs to build its batches one after another.
class Batches {
 public:
  static Result<Batches> Make(PlanLibrary& library, const Options& options, bool features) {
    Batches made;
    PipelineSource source;
    source.yaml = PipelineOf(options, features);
    MILLRACE_ASSIGN_OR_RETURN(made.plan_, library.Compile(source));
    made.size_ = options.batch;
    made.units_ = made.plan_->counts().selected / options.batch;
    if (made.units_ == 0) return InvalidArgument("the dataset has less than one batch");
    made.scratch_ = made.plan_->NewScratch();
    made.reader_ = made.plan_->source()->NewReader();
    MILLRACE_ASSIGN_OR_RETURN(auto writer,
                              BatchWriter::Create(made.plan_->source()->tensors(),
                                                  made.plan_->source()->expand(), *made.pool_));
    made.writer_ = std::make_unique<BatchWriter>(std::move(writer));
    made.edges_ = *FindTensor(made.plan_->source()->tensors(), "edge_source");
    made.nodes_ = *FindTensor(made.plan_->source()->tensors(), "node");
    return made;
  }

  /// The examples of the next batch.
  void Next(std::vector<ExampleId>& ids) {
    const std::uint64_t unit = next_++;
    epoch_ = unit / units_;
    ids = plan_->ExamplesOf(epoch_, {unit % units_ * size_, size_});
  }
  /// Reads examples into the writer.
  Status Read(std::span<const ExampleId> ids) {
    writer_->Begin({}, epoch_, 0, static_cast<std::uint32_t>(ids.size()));
    return reader_->Append(ids, *writer_);
  }
  std::uint64_t edges() const { return writer_->rows(edges_); }
  std::uint64_t nodes() const { return writer_->rows(nodes_); }

  Result<std::shared_ptr<const PackedBatch>> Build() {
    const std::uint64_t unit = next_++;
    return plan_->Batch(unit / units_, {unit % units_ * size_, size_}, *scratch_);
  }

 private:
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<BatchScratch> scratch_;
  std::unique_ptr<BufferPool> pool_ = std::make_unique<BufferPool>();
  std::unique_ptr<ExampleReader> reader_;
  std::unique_ptr<BatchWriter> writer_;
  std::size_t edges_ = 0;
  std::size_t nodes_ = 0;
  std::uint32_t size_ = 0;
  std::uint64_t units_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t next_ = 0;
};

/// CPU seconds of each round; for rates that count edges, seconds an edge.
struct Times {
  std::vector<double> sampling, lines, far_lines, features, gather, rows, worker, end_to_end;
};

class Run {
 public:
  Run(const Options& options, const Report& report) : options_(options), report_(report) {}

  Status All() {
    dir_ = options_.dir;
    if (dir_.empty()) {
      dir_ = made_up_.path() / "graph";
      RmatOptions rmat;
      GraphGeneratorReport made;
      rmat.nodes = options_.nodes;
      rmat.edges = options_.edges;
      rmat.rows = GraphRows::kTarget;
      rmat.features = 128;
      MILLRACE_RETURN_IF_ERROR(GenerateRmat(dir_, rmat, &made));
    }
    MILLRACE_ASSIGN_OR_RETURN(dataset_, options_.in_memory ? GraphDataset::OpenInMemory(dir_, {})
                                                           : GraphDataset::Open(dir_));
    if (dataset_->Find("node_feature/x") == nullptr) {
      return InvalidArgument(dir_.string() + ": expected an array node_feature/x");
    }
    PlanLibraryOptions library;
    library.kinds = ProductKinds();
    library.datasets["data"] = {.dir = dir_, .index_file = {}, .in_memory = options_.in_memory};
    library_ = std::make_unique<PlanLibrary>(std::move(library), MakeNullLogger());
    MILLRACE_ASSIGN_OR_RETURN(Batches plain, Batches::Make(*library_, options_, false));
    MILLRACE_ASSIGN_OR_RETURN(Batches featured, Batches::Make(*library_, options_, true));
    std::unique_ptr<Daemon> daemon;
    std::unique_ptr<Session> session;
    if (!options_.millraced.empty()) {
      MILLRACE_ASSIGN_OR_RETURN(session, Connect(daemon));
    }
    Times warm;  // the first round takes the memory, and fills the caches
    MILLRACE_RETURN_IF_ERROR(Round(plain, featured, session.get(), warm));
    Times times;
    const double began = ClockSeconds(CLOCK_MONOTONIC);
    while (times.sampling.size() < 3 || ClockSeconds(CLOCK_MONOTONIC) - began < options_.seconds) {
      MILLRACE_RETURN_IF_ERROR(Round(plain, featured, session.get(), times));
    }
    Print(times);
    return OkStatus();
  }

 private:
  Result<std::unique_ptr<Session>> Connect(std::unique_ptr<Daemon>& daemon) {
    std::vector<std::string> arguments = {"serve", "--listen", "127.0.0.1:0", "--threads", "1"};
    if (options_.in_memory) arguments.insert(arguments.end(), {"--in-memory", "data"});
    const Daemons daemons{options_.millraced, dir_.string(), made_up_.path()};
    daemon = std::make_unique<Daemon>(daemons, "serve", arguments);
    if (daemon->address().empty()) return Internal("the daemon does not listen");
    SessionOptions session;
    session.address = daemon->address();
    session.job = "bench";
    session.pipeline = PipelineOf(options_, true);
    session.shared_memory = true;
    // Little is built while the other stages are measured.
    session.prefetch_bytes = 64 << 20;
    return Session::Connect(session);
  }

  Status Round(Batches& plain, Batches& featured, Session* session, Times& times) {
    std::vector<ExampleId> ids;
    double sampling = 0;
    std::uint64_t edges = 0;
    for (std::uint32_t i = 0; i < options_.batches; ++i) {
      plain.Next(ids);
      const double began = ThreadCpuSeconds();
      MILLRACE_RETURN_IF_ERROR(plain.Read(ids));
      sampling += ThreadCpuSeconds() - began;
      edges += plain.edges();
    }
    times.sampling.push_back(sampling / static_cast<double>(edges));
    const GraphArray& x = *dataset_->Find("node_feature/x");
    times.lines.push_back(ReadLines(dataset_->indices(), edges) / static_cast<double>(edges));
    times.far_lines.push_back(ReadLines(x, edges) / static_cast<double>(edges));
    batch_edges_ = edges / options_.batches;

    double features = 0;
    edges = 0;
    std::uint64_t nodes = 0;
    for (std::uint32_t i = 0; i < options_.batches; ++i) {
      featured.Next(ids);
      const double began = ThreadCpuSeconds();
      MILLRACE_RETURN_IF_ERROR(featured.Read(ids));
      features += ThreadCpuSeconds() - began;
      edges += featured.edges();
      nodes += featured.nodes();
    }
    times.features.push_back(features / static_cast<double>(edges));
    batch_nodes_ = nodes / options_.batches;
    const double sampled = times.sampling.back() * static_cast<double>(edges);
    times.gather.push_back((features - sampled) / static_cast<double>(nodes));
    times.rows.push_back(CopyRows(nodes) / static_cast<double>(nodes));

    MILLRACE_RETURN_IF_ERROR(Build(featured, times));
    return session == nullptr ? OkStatus() : Consume(*session, times);
  }

  Status Build(Batches& featured, Times& times) {
    double worker = 0;
    std::uint64_t edges = 0;
    for (std::uint32_t i = 0; i < options_.batches; ++i) {
      const double began = ThreadCpuSeconds();
      MILLRACE_ASSIGN_OR_RETURN(const auto batch, featured.Build());
      check_ += batch->digest().low;
      worker += ThreadCpuSeconds() - began;
      edges += batch->tensors()[*batch->Find("edge_source")].rows;
    }
    times.worker.push_back(worker / static_cast<double>(edges));
    return OkStatus();
  }

  Status Consume(Session& session, Times& times) {
    // Batches that were built while the other stages were measured do not count.
    std::uint64_t edges = 0;
    do {
      MILLRACE_RETURN_IF_ERROR(ConsumeOne(session, edges));
    } while (session.stats().buffered_batches > 0);
    edges = 0;
    const double began = ClockSeconds(CLOCK_MONOTONIC);
    for (std::uint32_t i = 0; i < 2 * options_.batches; ++i) {
      MILLRACE_RETURN_IF_ERROR(ConsumeOne(session, edges));
    }
    times.end_to_end.push_back((ClockSeconds(CLOCK_MONOTONIC) - began) /
                               static_cast<double>(edges));
    // The daemon rests before the other stages go on: it has filled what this process holds ahead.
    std::uint64_t buffered = 0;
    do {
      buffered = session.stats().buffered_batches;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } while (session.stats().buffered_batches > buffered);
    return OkStatus();
  }

  /// Takes a batch, and reads every byte of it, as a trainer would do.
  Status ConsumeOne(Session& session, std::uint64_t& edges) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<Batch> batch, session.Next());
    while (!batch) {
      MILLRACE_RETURN_IF_ERROR(session.NextEpoch().status());
      MILLRACE_ASSIGN_OR_RETURN(batch, session.Next());
    }
    for (const DeliveredTensor& tensor : batch->tensors()) {
      const std::span<const std::uint64_t> words(
          reinterpret_cast<const std::uint64_t*>(tensor.data), tensor.bytes / 8);
      for (const std::uint64_t word : words) check_ += word;
    }
    edges += batch->Find("edge_source")->shape[0];
    return OkStatus();
  }

  /// The CPU time of so many reads of random lines.
  double ReadLines(const GraphArray& array, std::uint64_t count) {
    std::uint64_t bytes = DTypeSize(array.type.dtype);
    for (const std::uint64_t extent : array.type.shape) bytes *= extent;
    const std::uint64_t lines = bytes / 64;
    std::vector<std::uint32_t> at(count);
    for (std::uint32_t& line : at) line = static_cast<std::uint32_t>(places_.Below(lines));
    const double began = ThreadCpuSeconds();
    std::uint64_t sum = 0;
    for (const std::uint32_t line : at) {
      sum += LoadOnce<std::uint64_t>(array.data + std::uint64_t{line} * 64);
    }
    check_ += sum;
    return ThreadCpuSeconds() - began;
  }

  /// The CPU time of so many copies of random rows, into memory that is as large as a batch's.
  double CopyRows(std::uint64_t count) {
    const GraphArray* const x = dataset_->Find("node_feature/x");
    const std::uint64_t row_bytes = x->type.shape[1] * DTypeSize(x->type.dtype);
    std::vector<std::uint32_t> at(count);
    for (std::uint32_t& row : at) row = static_cast<std::uint32_t>(places_.Below(x->rows()));
    rows_.resize(std::max<std::size_t>(rows_.size(), (batch_nodes_ + 1) * row_bytes));
    const double began = ThreadCpuSeconds();
    std::size_t to = 0;
    for (const std::uint32_t row : at) {
      std::memcpy(rows_.data() + to, x->data + row * row_bytes, row_bytes);
      to = to + 2 * row_bytes > rows_.size() ? 0 : to + row_bytes;
    }
    const double took = ThreadCpuSeconds() - began;
    check_ += static_cast<std::uint64_t>(rows_[rows_.size() / 2]);
    return took;
  }

  void Print(const Times& times) const {
    const Figure::Params params = {{"batch", std::to_string(options_.batch)},
                                   {"nodes", std::to_string(dataset_->nodes())},
                                   {"edges", std::to_string(dataset_->edges())}};
    report_.Note(fmt::format("a batch has {} edges and {} nodes", batch_edges_, batch_nodes_));
    const auto rate = [](const std::vector<double>& seconds) { return 1 / Median(seconds); };
    const GraphArray& x = *dataset_->Find("node_feature/x");
    const double row_bytes = static_cast<double>(x.type.shape[1] * DTypeSize(x.type.dtype));
    report_.Add({"sampled edges", rate(times.sampling), "edges/s", "random lines of indices",
                 rate(times.lines), params});
    report_.Add({"sampled edges, of random lines of memory", rate(times.sampling), "edges/s",
                 "random lines of features", rate(times.far_lines), params});
    report_.Add({"gathered features", row_bytes * rate(times.gather) / 1e9, "GB/s", "random rows",
                 row_bytes * rate(times.rows) / 1e9, params});
    report_.Add({"sampled edges with features", rate(times.features), "edges/s", "", 0, params});
    report_.Add({"sampled edges, packed and hashed", rate(times.worker), "edges/s", "", 0, params});
    if (!times.end_to_end.empty()) {
      report_.Add({"sampled edges end to end", rate(times.end_to_end), "edges/s", "", 0, params});
    }
    report_.Note(fmt::format("checksum {:016x}", check_));
  }

  const Options& options_;
  const Report& report_;
  const TemporaryFolder made_up_;
  fs::path dir_;
  std::shared_ptr<const GraphDataset> dataset_;
  std::unique_ptr<PlanLibrary> library_;
  Places places_;
  std::vector<std::byte> rows_;
  std::uint64_t batch_edges_ = 0;
  std::uint64_t batch_nodes_ = 0;
  std::uint64_t check_ = 0;
};

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace::bench;
  Options options;
  millrace::CommandLine app(
      "Neighbourhoods drawn on one thread, from the graph to delivered tensors", argv[0]);
  app.ShowDefaults();
  app.AddOption("dir", &options.dir, "graph dataset with node_feature/x (default: made up)");
  app.AddOption("--nodes", &options.nodes, "of a made-up graph");
  app.AddOption("--edges", &options.edges, "of a made-up graph");
  app.AddOption("--batch", &options.batch, "roots a batch").Between(1, 1 << 20);
  app.AddOption("--seconds", &options.seconds, "seconds to measure").Positive();
  app.AddOption("--batches", &options.batches, "batches a round").Between(1, 100000);
  app.AddOption("--millraced", &options.millraced,
                "the daemon's program; empty: nothing is measured end to end")
      .ShowDefault();
  app.AddFlag("--in-memory", options.in_memory, "hold the graph in memory, on large pages");
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const Report report(options.json);
  const millrace::Status status = Run(options, report).All();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_sampling: {}\n", status.message());
  return 1;
}
