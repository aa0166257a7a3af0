#include "server/kinds/graph/graph_kind.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/base/quoted.h"
#include "server/files/cache_dir.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/format/graph_json.h"
#include "server/kinds/graph/format/numbers_check.h"
#include "server/kinds/graph/format/verify.h"
#include "server/kinds/graph/graph_generate.h"
#include "server/kinds/graph/graph_sources.h"

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

/// The files of the dataset whose paths are `wanted`.
template <class Wanted>
DatasetListing ListFiles(const GraphDataset& dataset, const Wanted& wanted) {
  DatasetListing listing;
  for (const WatchedFile& file : dataset.files().files()) {
    if (!wanted(file.file.path())) continue;
    // A file elsewhere keeps its absolute path.
    const fs::path below = file.file.path().lexically_relative(dataset.dir());
    const bool inside = !below.empty() && *below.begin() != "..";
    listing.names.push_back(inside ? below.string() : file.file.path().string());
    listing.identities.push_back(file.file.identity());
  }
  return listing;
}

Status NoArray(const GraphDataset& dataset, const std::string& name) {
  std::string names;
  for (const auto& entry : dataset.description().arrays) {
    names += (names.empty() ? "" : ", ") + entry.first;
  }
  return InvalidArgument(fmt::format("dataset {} has no array {}: expected one of {}",
                                     dataset.dir().string(), Quoted(name), names));
}

/// Copies the dataset into memory. One does so at a time, so that none counts on memory that
/// another one is about to take.
Result<std::shared_ptr<const GraphDataset>> OpenInMemory(const fs::path& dir,
                                                         const DatasetOpenOptions& options) {
  std::unique_lock<std::mutex> one_at_a_time;
  if (options.one_build != nullptr) one_at_a_time = std::unique_lock(*options.one_build);
  const auto began = std::chrono::steady_clock::now();
  VerifiedFiles verified(VerifiedPlaces(dir, options));
  MILLRACE_ASSIGN_OR_RETURN(auto dataset,
                            GraphDataset::OpenInMemory(dir, {.threads = options.threads,
                                                             .stop = options.stop,
                                                             .verified = &verified,
                                                             .progress = options.progress}));
  // If it cannot be remembered, a process that maps the files compares them again.
  (void)verified.Save();
  if (options.logger != nullptr) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    options.logger->Info("dataset is in memory", {{"dataset", options.id},
                                                  {"bytes", dataset->in_memory_bytes()},
                                                  {"in_huge_pages", dataset->huge_page_bytes()},
                                                  {"seconds", took.count()}});
  }
  return dataset;
}

class GraphKind final : public DatasetKind {
 public:
  std::string_view name() const override { return kGraphKind; }
  std::string_view looks_for() const override { return "file graph.json"; }
  bool IsOne(const fs::path& dir) const override { return IsGraphDataset(dir); }
  const SourceTable& sources() const override { return sources_; }
  std::vector<AddedStage> stages() const override { return GraphStages(); }

  bool can_be_in_memory() const override { return true; }

  OpenedDataset Open(const fs::path& dir, const DatasetOpenOptions& options) const override {
    auto dataset = options.in_memory
                       ? OpenInMemory(dir, options)
                       : GraphDataset::Open(dir, {.verify_contents = true,
                                                  .remembered_at = VerifiedPlaces(dir, options)});
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
    MILLRACE_RETURN_IF_ERROR(
        CheckNumbers(*dataset, {.threads = options.threads, .stop = options.stop}));
    // If it cannot be remembered, the next one verifies again.
    const Status remembered = verified.Save();
    return fmt::format(
        "{} files, {} bytes: all as graph.json says, and every number fits\ndigest {}\n{}",
        dataset->file_count(), GraphBytes(*dataset), dataset->digest().ToHex(),
        remembered.ok() ? "" : "not remembered: " + remembered.message() + "\n");
  }

  Result<DatasetListing> FilesToWarm(const fs::path& dir) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, GraphDataset::Open(dir));
    return ListFiles(*dataset, [](const fs::path&) { return true; });
  }

  Result<DatasetListing> ArraysToWarm(const fs::path& dir,
                                      const std::vector<std::string>& arrays) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, GraphDataset::Open(dir));
    std::set<fs::path> wanted;
    for (const std::string& name : arrays) {
      const ArrayRecord* const array = dataset->description().Find(name);
      if (array == nullptr) return NoArray(*dataset, name);
      wanted.insert(dir / array->path);
    }
    return ListFiles(*dataset, [&](const fs::path& path) { return wanted.contains(path); });
  }

  std::vector<Parameter> generate_parameters() const override { return GraphGenerateParameters(); }
  Result<std::string> Generate(const fs::path& dir, const GenerateRequest& request) const override {
    return GenerateGraphDataset(dir, request);
  }

 private:
  const SourceTable sources_ = GraphSources();
};

}  // namespace

std::shared_ptr<const DatasetKind> MakeGraphKind() { return std::make_shared<GraphKind>(); }

}  // namespace millrace
