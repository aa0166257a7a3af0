#include "server/kinds/coq/coq_reports.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include <fmt/core.h>

namespace millrace {
namespace {

constexpr std::size_t kShownLeftOut = 100;
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

std::string DescribeLeftOut(const DatasetIndex& index) {
  const std::size_t count = index.left_out().size();
  if (count == 0) return {};
  std::string text = fmt::format("\nleft out         {} file{}\n", count, count == 1 ? "" : "s");
  for (const LeftOutRecord& file : index.left_out().first(std::min(count, kShownLeftOut))) {
    text +=
        fmt::format("  {}: {}\n", Escaped(index.left_out_name(file)), index.left_out_reason(file));
  }
  if (count > kShownLeftOut) text += fmt::format("  and {} more\n", count - kShownLeftOut);
  return text;
}

std::string DescribeBuild(const IndexReport& report) {
  return fmt::format(
      "indexed          {} of {} files anew, {} unchanged\n"
      "built            {} nodes in {:.2f} s on {} thread{}: {:.2f} M nodes/s\n"
      "dataset bytes    {}\n"
      "index bytes      {} ({:.1f} an example)\n"
      "peak memory      {:.1f} MB, mapped files left out\n",
      report.files - report.unchanged_files, report.files, report.unchanged_files, report.nodes,
      report.seconds, report.threads, report.threads == 1 ? "" : "s",
      report.nodes_per_second() / 1e6, report.dataset_bytes, report.index_bytes,
      report.index_bytes_per_example(), static_cast<double>(report.peak_memory_bytes) / 1e6);
}

}  // namespace

std::string DescribeIndexing(const DatasetIndex& index, const CoqIndexOutcome& outcome) {
  std::string text = fmt::format(
      "index            {}\n"
      "digest           {}\n"
      "files            {}\n"
      "nodes            {}\n"
      "edges            {}\n"
      "definitions      {}\n"
      "clusters         {}\n"
      "proof states     {}\n"
      "tactics          {}\n",
      outcome.file.string(), index.digest().ToHex(), index.files().size(), index.nodes(),
      index.edges(), index.definitions().size(), index.clusters().size(), index.outcomes().size(),
      index.tactics().size());
  if (!index.left_out().empty()) {
    text += fmt::format("left out         {} files\n", index.left_out().size());
  }
  return text + (outcome.built ? DescribeBuild(outcome.report)
                               : "built            no: the index fits the files (--force builds "
                                 "it again)\n");
}

std::string DescribeContents(const DatasetIndex& index) {
  return DescribeTotals(index) + DescribeTactics(index) + DescribeFiles(index) +
         DescribeLeftOut(index);
}

}  // namespace millrace
