#include "server/plugin/plugin_probe.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/hash.h"

namespace millrace {

Result<std::vector<ProbedExample>> ProbeExamples(PluginPool& pool,
                                                 std::span<const std::uint64_t> ids,
                                                 const std::stop_token& stop) {
  PluginRequest request;
  request.ids.assign(ids.begin(), ids.end());
  std::vector<ProbedExample> probed;
  if (ids.empty()) return probed;
  MILLRACE_ASSIGN_OR_RETURN(const PluginReply reply, pool.Build(request, stop));
  const std::vector<PluginTensor>& tensors = pool.facts().tensors;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    ProbedExample& example = probed.emplace_back(ProbedExample{ids[row], reply.outcome(row), {}});
    if (example.outcome != RowOutcome::kDone) continue;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::uint64_t extent = tensors[t].type.ragged ? reply.extent(t, row) : 0;
      Xxh3Stream stream;
      stream.Update(std::as_bytes(std::span(&extent, 1)));
      stream.Update(reply.values(t, row));
      example.tensors.push_back(stream.Finish());
    }
  }
  return probed;
}

std::optional<std::string> FirstDifference(std::span<const PluginTensor> tensors,
                                           std::span<const ProbedExample> a,
                                           std::span<const ProbedExample> b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].outcome != b[i].outcome) {
      return fmt::format("example {}, which is built in one process and not in the other", a[i].id);
    }
    for (std::size_t t = 0; t < a[i].tensors.size(); ++t) {
      if (a[i].tensors[t] == b[i].tensors[t]) continue;
      return fmt::format("example {}, tensor {}", a[i].id, tensors[t].name);
    }
  }
  return std::nullopt;
}

std::vector<std::uint64_t> ExamplesToProbe(std::uint64_t examples) {
  if (examples == 0) return {};
  std::vector<std::uint64_t> ids = {0, examples / 2, examples - 1};
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<std::uint64_t> SpreadExamples(std::uint64_t examples, std::uint64_t count) {
  count = std::min(examples, count);
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < count; ++i) {
    ids.push_back(count == 1 ? 0 : i * (examples - 1) / (count - 1));
  }
  return ids;
}

}  // namespace millrace
