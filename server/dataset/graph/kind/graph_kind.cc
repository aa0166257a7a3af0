#include "server/dataset/graph/kind/graph_kind.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "server/dataset/cache_dir.h"
#include "server/dataset/graph/format/graph_json.h"
#include "server/dataset/graph/graph_dataset.h"
#include "server/dataset/graph/kind/graph_generate.h"
#include "server/dataset/graph/source/graph_sources.h"
#include "server/dataset/graph/verify.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVerifiedFileName = ".millrace.verified";

/// Where it is remembered which files were verified: in the folder, or else in the user's cache.
std::vector<fs::path> VerifiedPlaces(const fs::path& dir, const DatasetOpenOptions& options) {
  std::vector<fs::path> places = {dir / kVerifiedFileName};
  std::error_code error;
  const fs::path real = fs::canonical(dir, error);
  const fs::path cache = options.cache_dir.empty() ? DefaultCacheDir() : options.cache_dir;
  if (!cache.empty() && !error) {
    places.push_back(cache / Xxh3(real.string()).ToHex() / "verified");
  }
  return places;
}

std::string DescribeArrays(const GraphDescription& graph) {
  std::string text;
  for (const auto& entry : graph.arrays) {
    text += fmt::format("  {:<28} {:<24} {}\n", entry.first, entry.second.type.ToString(),
                        entry.second.path);
  }
  return text;
}

std::string Describe(const GraphDataset& dataset) {
  const GraphDescription& graph = dataset.description();
  std::string text = fmt::format(
      "nodes            {}\n"
      "edges            {}\n"
      "rows             {}\n",
      graph.nodes, graph.edges, GraphRowsName(graph.rows));
  if (graph.node_labels) text += fmt::format("node labels      {}\n", graph.node_labels->size());
  if (graph.edge_labels) text += fmt::format("edge labels      {}\n", graph.edge_labels->size());
  text += fmt::format("files            {}\nbytes            {}\ndigest           {}\narrays\n",
                      dataset.file_count(), GraphBytes(dataset), dataset.digest().ToHex());
  return text + DescribeArrays(graph);
}

class GraphKind final : public DatasetKind {
 public:
  std::string_view name() const override { return kGraphKind; }
  std::string_view looks_for() const override { return "file graph.json"; }
  bool IsOne(const fs::path& dir) const override { return IsGraphDataset(dir); }
  const SourceTable& sources() const override { return sources_; }
  std::vector<AddedStage> stages() const override { return GraphStages(); }

  OpenedDataset Open(const fs::path& dir, const DatasetOpenOptions& options) const override {
    auto dataset = GraphDataset::Open(
        dir, {.verify_contents = true, .remembered_at = VerifiedPlaces(dir, options)});
    OpenedDataset opened;
    opened.status = dataset.status();
    if (dataset.ok()) opened.dataset = *std::move(dataset);
    return opened;
  }

  Result<std::string> Index(const fs::path& dir,
                            const DatasetOpenOptions& /*options*/) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, GraphDataset::Open(dir));
    return fmt::format("a graph dataset needs no index\n{}", Describe(*dataset));
  }

  Result<std::string> Inspect(const fs::path& dir,
                              const DatasetOpenOptions& /*options*/) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, GraphDataset::Open(dir));
    return Describe(*dataset);
  }

  Result<std::string> Verify(const fs::path& dir,
                             const DatasetOpenOptions& options) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, GraphDataset::Open(dir));
    VerifiedFiles verified(VerifiedPlaces(dir, options));
    ProgressCount progress(options.progress, GraphBytes(*dataset));
    VerifyGraphOptions verify;
    verify.threads = options.threads;
    verify.stop = options.stop;
    verify.verified = &verified;
    verify.progress = [&progress](std::uint64_t bytes) { progress.Add(bytes); };
    MILLRACE_RETURN_IF_ERROR(VerifyGraph(*dataset, verify));
    // If it cannot be remembered, the next one verifies again.
    const Status remembered = verified.Save();
    return fmt::format("{} files, {} bytes: all as graph.json says\ndigest {}\n{}",
                       dataset->file_count(), GraphBytes(*dataset), dataset->digest().ToHex(),
                       remembered.ok() ? "" : "not remembered: " + remembered.message() + "\n");
  }

  Result<DatasetListing> FilesToWarm(const fs::path& dir) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, GraphDataset::Open(dir));
    DatasetListing listing;
    for (const WatchedFile& file : dataset->files().files()) {
      // A file elsewhere keeps its absolute path.
      const fs::path below = file.file.path().lexically_relative(dir);
      const bool inside = !below.empty() && *below.begin() != "..";
      listing.names.push_back(inside ? below.string() : file.file.path().string());
      listing.identities.push_back(file.file.identity());
    }
    return listing;
  }

  std::vector<GenerateOption> generate_options() const override { return GraphGenerateOptions(); }
  Result<std::string> Generate(const fs::path& dir, const GenerateRequest& request) const override {
    return GenerateGraphDataset(dir, request);
  }

 private:
  const SourceTable sources_ = GraphSources();
};

}  // namespace

std::shared_ptr<const DatasetKind> MakeGraphKind() { return std::make_shared<GraphKind>(); }

}  // namespace millrace
