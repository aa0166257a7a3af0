#include "server/plan/tensors/function_probe.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "server/plugin/plugin_probe.h"

namespace millrace {

Result<std::vector<FunctionProbe>> BuildProbes(const Source& source, std::size_t first,
                                               std::span<const ExampleId> ids) {
  BufferPool pool;
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer,
                            BatchWriter::Create(source.tensors(), source.expand(), pool));
  const std::unique_ptr<ExampleReader> reader = source.NewReader();
  std::vector<FunctionProbe> probes;
  for (const ExampleId id : ids) {
    FunctionProbe& probe = probes.emplace_back(FunctionProbe{id, {}});
    writer.Begin({}, 0, 0, 1);
    const Status read = reader->Append(std::span(&id, 1), writer);
    if (read.code() == StatusCode::kAborted) {
      probe.failure = read.message();
      continue;
    }
    MILLRACE_RETURN_IF_ERROR(read);
    if (writer.info().example_ids.empty()) continue;
    for (std::size_t t = first; t < source.tensors().size(); ++t) {
      probe.tensors.push_back(Xxh3(writer.values(t)));
    }
  }
  return probes;
}

std::optional<std::string> FirstDifference(std::span<const TensorSpec> tensors,
                                           std::span<const FunctionProbe> a,
                                           std::span<const FunctionProbe> b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].tensors.size() != b[i].tensors.size()) {
      return fmt::format("example {}, which is built in one process and not in the other",
                         a[i].id.value());
    }
    for (std::size_t t = 0; t < a[i].tensors.size(); ++t) {
      if (a[i].tensors[t] == b[i].tensors[t]) continue;
      return fmt::format("example {}, tensor {}", a[i].id.value(), tensors[t].path);
    }
  }
  return std::nullopt;
}

Result<std::string> ProbeFunctions(const Source& here, const Source& there, const Source& source) {
  const std::size_t first = source.tensors().size();
  const auto tensors = std::span(here.tensors()).subspan(first);
  std::vector<ExampleId> ids;
  for (const std::uint64_t id : ExamplesToProbe(source.examples())) ids.emplace_back(id);
  MILLRACE_ASSIGN_OR_RETURN(const auto a, BuildProbes(here, first, ids));
  MILLRACE_ASSIGN_OR_RETURN(const auto b, BuildProbes(there, first, ids));
  if (const auto difference = FirstDifference(tensors, a, b)) {
    return FailedPrecondition(fmt::format(
        "{}: two processes give different bytes; what a function returns has to depend on its "
        "arguments, the example's id and the rng alone: what draws takes an argument `rng`, or the "
        "pipeline says `random: true`; `millrace check` compares more examples",
        *difference));
  }
  std::string text;
  for (const FunctionProbe& probe : a) {
    if (probe.tensors.empty()) text += fmt::format("\nexample {}: not built", probe.id.value());
    for (std::size_t t = 0; t < probe.tensors.size(); ++t) {
      text += fmt::format("\nexample {}, tensor {}: {}", probe.id.value(), tensors[t].path,
                          probe.tensors[t].ToHex());
    }
  }
  return text;
}

}  // namespace millrace
