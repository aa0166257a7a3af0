#include "server/plan/plan_source.h"

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/plan/cache/cached_source.h"
#include "server/plan/columns/measure.h"
#include "server/plan/columns/measured_source.h"
#include "server/plan/mix/branch_program.h"
#include "server/plan/mix/mixed_source.h"
#include "server/plan/order/chunked_source.h"
#include "server/plan/tensors/tensor_functions.h"
#include "server/source/columns_read.h"
#include "server/source/mix_parts.h"
#include "server/source/order_parts.h"

namespace millrace {
namespace {

using SourcePtr = std::shared_ptr<const Source>;

/// The source with the cache that the parts ask for, if they ask for one.
Result<SourcePtr> AddCache(SourcePtr source, const PlanParts& parts,
                           const SourceServices& services) {
  const SourceCache cache = {services.examples, parts.Get<CachePart>().examples,
                             parts.Get<MeasurePart>().operations};
  if (cache.level == CacheLevel::kDisk && cache.examples != nullptr &&
      !cache.examples->has_disk()) {
    services.logger.Warning(
        "a pipeline keeps examples on disk, but this process has no folder for them; "
        "they are kept in memory alone: set cache_dir",
        {{"source", source->name()}});
  }
  auto cached = WithCache(std::move(source), cache);
  if (!cached.ok()) return AtKey(parts, cached.status());
  return cached;
}

/// The source with the measured columns that the parts read, if they read any.
Result<SourcePtr> AddColumns(SourcePtr source, const DrawnDataset& drawn,
                             const SourceServices& services) {
  const PlanParts& parts = *drawn.parts;
  // Tensors that cannot be cut are refused before their lengths are measured.
  const Status cut = CheckChunks(*source, parts.Get<ChunkPart>());
  if (!cut.ok()) return AtKey(parts, cut);
  const std::set<std::string> read = ColumnsReadBy(parts);
  ColumnRequest request;
  for (MeasurableColumn& column : MeasurableColumns(*source)) {
    if (read.contains(column.name)) request.columns.push_back(std::move(column));
  }
  if (request.columns.empty()) return source;
  request.dataset_id = drawn.id;
  request.folders = drawn.column_folders;
  request.operations = parts.Get<MeasurePart>().operations;
  // The results of a user's code are measured anew if the code is another one.
  if (const std::string& code = source->facts().code; !code.empty()) {
    request.operations = Xxh3(fmt::format("{}\n{}", request.operations.ToHex(), code));
  }
  request.source = source;
  request.excluded_files = parts.Get<ExcludePart>().files;
  const Result<MeasuredColumns> values = services.columns.Get(request);
  if (!values.ok()) return AtKey(parts, values.status());
  return WithColumns(source, *values);
}

/// The source of one dataset. `mix`: as TensorReaders::mix.
Result<PlanSource> SourceOf(const DrawnDataset& drawn, std::optional<std::set<std::string>> mix,
                            const SourceServices& services) {
  const PlanParts& parts = *drawn.parts;
  MILLRACE_ASSIGN_OR_RETURN(
      SourcePtr source,
      drawn.kind->sources().Make(parts.Get<SourcePart>().name, drawn.dataset, parts));
  const FunctionChance chance = {
      static_cast<std::uint64_t>(parts.Get<ShufflePart>().seed.value_or(0)), drawn.branch};
  const TensorReaders readers = {ColumnsReadBy(parts), std::move(mix)};
  MILLRACE_ASSIGN_OR_RETURN(
      const TensorFunctions functions,
      TensorFunctions::Open(parts.Get<TensorsPart>(), readers, *source, chance, services.plugins));
  TensorsPart rest = functions.Rest(source->tensors());
  // From the inside out: functions whose results can be kept, the cache, columns measured over what
  // is cached, and the functions that are called anew in each epoch.
  MILLRACE_ASSIGN_OR_RETURN(source, functions.AddPure(std::move(source)));
  MILLRACE_ASSIGN_OR_RETURN(source, AddCache(std::move(source), parts, services));
  MILLRACE_ASSIGN_OR_RETURN(source, AddColumns(std::move(source), drawn, services));
  MILLRACE_ASSIGN_OR_RETURN(source, functions.AddOthers(std::move(source)));
  return PlanSource{std::move(source), std::move(rest)};
}

/// The source that mixes the sources of all branches, with the functions of the whole pipeline.
Result<PlanSource> MixOf(std::span<const DrawnDataset> drawn, const PlanParts& parts,
                         const SourceServices& services) {
  const TensorsPart& tensors = parts.Get<TensorsPart>();
  std::vector<MixedBranch> mixed;
  for (const DrawnDataset& branch : drawn) {
    Result<PlanSource> made = SourceOf(branch, ReadOfBranches(tensors), services);
    if (!made.ok()) {
      return AtKey(*branch.parts, made.status())
          .WithContext(fmt::format("branch {}", branch.branch));
    }
    mixed.push_back(
        {branch.branch, branch.id, std::move(made->source), std::move(made->tensors)});
  }
  MILLRACE_ASSIGN_OR_RETURN(
      SourcePtr source,
      MakeMixedSource(std::move(mixed), tensors, parts.Get<MixPart>().joint_tables));
  MILLRACE_ASSIGN_OR_RETURN(const TensorFunctions functions,
                            TensorFunctions::Open(tensors, {}, *source, {}, services.plugins));
  TensorsPart rest = functions.Rest(source->tensors());
  MILLRACE_ASSIGN_OR_RETURN(source, functions.AddPure(std::move(source)));
  MILLRACE_ASSIGN_OR_RETURN(source, functions.AddOthers(std::move(source)));
  return PlanSource{std::move(source), std::move(rest)};
}

}  // namespace

Result<PlanSource> MakePlanSource(std::span<const DrawnDataset> drawn, const PlanParts& parts,
                                  const SourceServices& services) {
  const bool mixes = !parts.Get<BranchesPart>().branches.empty();
  MILLRACE_ASSIGN_OR_RETURN(PlanSource made, mixes
                                                 ? MixOf(drawn, parts, services)
                                                 : SourceOf(drawn.front(), std::nullopt, services));
  auto cut = CutIntoChunks(std::move(made.source), parts.Get<ChunkPart>());
  if (!cut.ok()) return AtKey(parts, cut.status());
  made.source = *std::move(cut);
  return made;
}

}  // namespace millrace
