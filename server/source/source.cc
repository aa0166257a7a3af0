#include "server/source/source.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {

Result<std::vector<std::uint32_t>> Source::FileLabels(const SplitOptions& /*options*/) const {
  return InvalidArgument(
      fmt::format("split.method: file_prefix needs files; the source '{}' has none", name()));
}

Result<std::size_t> Source::FindColumn(std::string_view column) const {
  const std::vector<std::string> all = ColumnNames(*this);
  const auto found = std::find(all.begin(), all.end(), column);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  return InvalidArgument(fmt::format("the source '{}' has no column '{}'; it has {}", name(),
                                     column, all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", "))));
}

std::vector<std::string> ColumnNames(const Source& source) {
  std::vector<std::string> names;
  for (const SourceColumn& column : source.columns()) names.push_back(column.name);
  return names;
}

std::size_t BranchOf(std::span<const SourceBranch> branches, ExampleId example) {
  const auto after = std::upper_bound(
      branches.begin(), branches.end(), example.value(),
      [](std::uint64_t id, const SourceBranch& branch) { return id < branch.first; });
  return branches.empty() ? 0 : static_cast<std::size_t>(after - branches.begin()) - 1;
}

std::vector<ExampleId> AllChunksOf(const Source& source, std::span<const ExampleId> examples) {
  std::vector<ExampleId> ids;
  for (const ExampleId example : examples) {
    const ChunkIds chunks = source.ChunksOf(example);
    for (std::uint64_t i = 0; i < chunks.count; ++i) ids.emplace_back(chunks.first.value() + i);
  }
  return ids;
}

}  // namespace millrace
