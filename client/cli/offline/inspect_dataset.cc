#include "client/cli/offline/inspect_dataset.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "client/cli/offline/offline.h"
#include "client/cli/progress.h"
#include "common/system/stderr_logger.h"
#include "server/dataset/coq/index/index_store.h"

namespace millrace::cli {
namespace {

constexpr std::size_t kShownTactics = 20;
constexpr std::size_t kShownFiles = 20;

constexpr std::array<const char*, 7> kDefinitionKindNames = {"inductives",
                                                             "constructors",
                                                             "projections",
                                                             "manual constants",
                                                             "tactical constants",
                                                             "manual section constants",
                                                             "tactical section constants"};

std::string DescribeTotals(const DatasetIndex& index) {
  std::uint64_t bytes = 0;
  for (const FileRecord& file : index.files()) bytes += file.size;
  std::array<std::uint64_t, kDefinitionKindNames.size()> kinds{};
  std::uint64_t on_spine = 0;
  for (const DefinitionRecord& d : index.definitions()) {
    const auto kind = static_cast<std::size_t>(d.kind);
    if (kind < kinds.size()) ++kinds[kind];
    on_spine += d.on_spine;
  }
  std::uint64_t faithful = 0;
  for (const StepRecord& s : index.steps()) faithful += s.faithful;

  std::string text = fmt::format(
      "digest           {}\n"
      "files            {} ({} bytes)\n"
      "nodes            {}\n"
      "edges            {}\n"
      "definitions      {} ({} on the spine of their file)\n",
      index.digest().ToHex(), index.files().size(), bytes, index.nodes(), index.edges(),
      index.definitions().size(), on_spine);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k] > 0)
      text += fmt::format("                 {} {}\n", kinds[k], kDefinitionKindNames[k]);
  }
  text += fmt::format(
      "clusters         {} (the largest has {} definitions)\n"
      "proof states     {} in {} proof steps, {} of them faithful\n"
      "local context    at most {} nodes\n"
      "arguments        at most {}\n"
      "tactics          {}\n",
      index.clusters().size(), index.bounds().max_cluster, index.outcomes().size(),
      index.steps().size(), faithful, index.bounds().max_context, index.bounds().max_arguments,
      index.tactics().size());
  return text;
}

std::string DescribeTactics(const DatasetIndex& index) {
  std::vector<std::uint64_t> steps(index.tactics().size(), 0);
  for (const StepRecord& s : index.steps()) {
    if (s.tactic < steps.size()) ++steps[s.tactic];
  }
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return steps[a] > steps[b]; });
  std::string text;
  for (std::size_t i = 0; i < std::min(order.size(), kShownTactics); ++i) {
    text += fmt::format("  {:>9}  {}\n", steps[order[i]],
                        index.string(index.tactics()[order[i]].base_text));
  }
  if (order.size() > kShownTactics) {
    text += fmt::format("             and {} more\n", order.size() - kShownTactics);
  }
  return text;
}

std::string DescribeFiles(const DatasetIndex& index) {
  std::string text = "\n       file      nodes      edges  definitions  name\n";
  const std::size_t shown = std::min(index.files().size(), kShownFiles);
  for (std::uint32_t f = 0; f < shown; ++f) {
    const FileRecord& file = index.files()[f];
    text += fmt::format("  {:>9}  {:>9}  {:>9}  {:>11}  {}\n", f, file.node_count, file.edge_count,
                        file.definitions.count, index.file_name(f));
  }
  if (index.files().size() > shown) {
    text += fmt::format("             and {} more\n", index.files().size() - shown);
  }
  return text;
}

}  // namespace

Status InspectDataset(const std::filesystem::path& dir, const std::filesystem::path& index_file,
                      bool skip_bad) {
  IndexOptions options;
  options.build.skip_bad = skip_bad;
  options.index_file = index_file;
  options.logger = MakeStderrLogger("inspect", LogLevel::kInfo, false);
  std::unique_ptr<Progress> bar;
  options.build.progress = [&bar](const IndexProgress& progress) {
    if (!bar) bar = std::make_unique<Progress>("indexing", "bytes", progress.bytes_total);
    bar->Set(progress.bytes_done);
  };
  const auto index = OpenOrBuildIndex(dir, options);
  bar.reset();
  if (!index.ok()) return index.status();
  const std::string text = DescribeTotals(**index) + DescribeTactics(**index) +
                           DescribeFiles(**index) + DescribeLeftOut(**index);
  std::fputs(text.c_str(), stdout);
  return OkStatus();
}

}  // namespace millrace::cli
