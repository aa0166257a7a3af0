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
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "common/expand/expand.h"
#include "server/dataset/graph/generator/rmat_generator.h"
#include "server/dataset/graph/graph_dataset.h"
#include "server/dataset/kinds/product_kinds.h"
#include "server/pipeline/plan_library.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/report.h"
#include "tests/bench/scratch_folder.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string dir;  // empty: made up
  std::uint64_t nodes = 1'000'000;
  std::uint64_t edges = 15'000'000;
  std::uint32_t batch = 1024;
  std::uint32_t rounds = 9;
  std::uint32_t batches = 16;  // of each stage, in each round
  bool no_features = false;
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

/// A plan, and what a thread needs to build its batches one after another.
class Batches {
 public:
  static Result<Batches> Make(PlanLibrary& library, const Options& options, bool features) {
    Batches made;
    PipelineSource source;
    source.yaml = fmt::format(
        "millrace: 1\ndataset: g\nsource: {{roots: train}}\nshuffle: {{seed: 1}}\n"
        "batch: {{size: {}}}\nclosure: {{kind: neighbors, fanout: [15, 10]}}\n{}",
        options.batch, features ? "features: [x]\n" : "");
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
  std::vector<double> sampling, lines, features, gather, rows, worker, end_to_end;
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
    MILLRACE_ASSIGN_OR_RETURN(dataset_, GraphDataset::Open(dir_));
    PlanLibraryOptions library;
    library.kinds = ProductKinds();
    library.datasets["g"] = {.dir = dir_, .index_file = {}};
    library_ = std::make_unique<PlanLibrary>(std::move(library), MakeNullLogger());
    MILLRACE_ASSIGN_OR_RETURN(Batches plain, Batches::Make(*library_, options_, false));
    MILLRACE_ASSIGN_OR_RETURN(Batches featured,
                              Batches::Make(*library_, options_, !options_.no_features));
    Times times;
    for (std::uint32_t round = 0; round <= options_.rounds; ++round) {
      // The first one takes the memory, and fills the caches.
      Times warm;
      MILLRACE_RETURN_IF_ERROR(Round(plain, featured, round == 0 ? warm : times));
    }
    Print(times);
    return OkStatus();
  }

 private:
  Status Round(Batches& plain, Batches& featured, Times& times) {
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
    times.lines.push_back(ReadLines(edges) / static_cast<double>(edges));
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

    double worker = 0;
    double end_to_end = 0;
    edges = 0;
    for (std::uint32_t i = 0; i < options_.batches; ++i) {
      double began = ThreadCpuSeconds();
      MILLRACE_ASSIGN_OR_RETURN(const auto batch, featured.Build());
      check_ += batch->digest().low;
      const double built = ThreadCpuSeconds() - began;
      worker += built;
      edges += batch->tensors()[*batch->Find("edge_source")].rows;
      began = ThreadCpuSeconds();
      MILLRACE_ASSIGN_OR_RETURN(const auto delivered, Expand(*batch, Delivery(), pool_));
      check_ += delivered->tensors().size();
      end_to_end += built + ThreadCpuSeconds() - began;
    }
    times.worker.push_back(worker / static_cast<double>(edges));
    times.end_to_end.push_back(end_to_end / static_cast<double>(edges));
    return OkStatus();
  }

  /// The CPU time of so many reads of random lines.
  double ReadLines(std::uint64_t count) {
    const GraphArray& indices = dataset_->indices();
    const std::uint64_t lines = indices.rows() * DTypeSize(indices.type.dtype) / 64;
    std::vector<std::uint32_t> at(count);
    for (std::uint32_t& line : at) line = static_cast<std::uint32_t>(places_.Below(lines));
    const double began = ThreadCpuSeconds();
    std::uint64_t sum = 0;
    for (const std::uint32_t line : at) {
      sum += LoadOnce<std::uint64_t>(indices.data + std::uint64_t{line} * 64);
    }
    check_ += sum;
    return ThreadCpuSeconds() - began;
  }

  /// The CPU time of so many copies of random rows, into memory that is as large as a batch's.
  double CopyRows(std::uint64_t count) {
    const GraphArray* const x = dataset_->Find("node_feature/x");
    if (x == nullptr || options_.no_features) return 1;
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
    const auto rate = [](const std::vector<double>& seconds) { return 1e-6 / Median(seconds); };
    report_.Add({"neighbors, sampling", rate(times.sampling), "M edges/s", "random lines",
                 rate(times.lines), params});
    if (!options_.no_features) {
      report_.Add({"neighbors, gathering", 512e-9 / Median(times.gather), "GB/s", "random rows",
                   512e-9 / Median(times.rows), params});
    }
    report_.Add({"neighbors, with features", rate(times.features), "M edges/s", "", 0, params});
    report_.Add({"neighbors, worker", rate(times.worker), "M edges/s", "", 0, params});
    report_.Add({"neighbors, end to end", rate(times.end_to_end), "M edges/s", "", 0, params});
    report_.Note(fmt::format("checksum {:016x}", check_));
  }

  const Options& options_;
  const Report& report_;
  const ScratchFolder made_up_;
  fs::path dir_;
  std::shared_ptr<const GraphDataset> dataset_;
  std::unique_ptr<PlanLibrary> library_;
  BufferPool pool_;
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
  CLI::App app("Neighbourhoods drawn on one thread, from the graph to delivered tensors");
  app.option_defaults()->always_capture_default();
  app.add_option("dir", options.dir, "graph dataset with node_feature/x (default: made up)");
  app.add_option("--nodes", options.nodes, "of a made-up graph");
  app.add_option("--edges", options.edges, "of a made-up graph");
  app.add_option("--batch", options.batch, "roots a batch")->check(CLI::Range(1, 1 << 20));
  app.add_option("--rounds", options.rounds, "times that each stage is run")
      ->check(CLI::Range(1, 10000));
  app.add_option("--batches", options.batches, "batches a round")->check(CLI::Range(1, 100000));
  app.add_flag("--no-features", options.no_features, "leave the features out");
  app.add_flag("--json", options.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  const Report report(options.json);
  const millrace::Status status = Run(options, report).All();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_neighbors: {}\n", status.message());
  return 1;
}
