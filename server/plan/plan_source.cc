#include "server/plan/plan_source.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/hash.h"
#include "common/operations/pack_names.h"
#include "server/plan/cache/cached_source.h"
#include "server/plan/columns/measure.h"
#include "server/plan/columns/measured_source.h"
#include "server/plan/mix/branch_program.h"
#include "server/plan/mix/mixed_source.h"
#include "server/plan/order/chunked_source.h"
#include "server/plan/packed/packed_source.h"
#include "server/plan/tensors/document_tensors.h"
#include "server/plan/tensors/needed_definitions.h"
#include "server/plan/tensors/pack_outputs.h"
#include "server/plan/tensors/tensor_functions.h"
#include "server/plan/text/canonical.h"
#include "server/source/columns_read.h"
#include "server/source/mix_parts.h"
#include "server/source/order_parts.h"

namespace millrace {
namespace {

using SourcePtr = std::shared_ptr<const Source>;

/// A digest of all operations that decide how examples are built. `functions`: over examples, of
/// `tensors`.
Digest128 BuildOf(const PlanParts& parts, const TensorsPart& tensors,
                  const TensorFunctions& functions) {
  const Digest128 operations = parts.Get<MeasurePart>().operations;
  // The code of a function is known elsewhere, but not how what it reads is computed.
  const NamedDefinitions definitions = DefinitionsOf(tensors);
  std::set<std::string> needed;
  for (const std::string& name : functions.PureOnes()) AddNeeded(definitions, name, needed);
  if (needed.empty()) return operations;
  std::string text = operations.ToHex();
  for (const std::string& name : needed) {
    const TensorDefinition& definition = *definitions.at(name);
    text +=
        fmt::format("\n{}={}", name,
                    FormatDefinition(definition, *tensors.operations->Find(definition.operation)));
  }
  return Xxh3(text);
}

/// The source with the cache that the parts ask for, if they ask for one. `build`: as of BuildOf.
Result<SourcePtr> AddCache(SourcePtr source, const Digest128& build, const PlanParts& parts,
                           const SourceServices& services) {
  const SourceCache cache = {services.examples, parts.Get<CachePart>().examples, build};
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

/// The columns that the parts read, and that building every example finds.
std::vector<MeasurableColumn> ColumnsToMeasure(const Source& source, const PlanParts& parts) {
  const std::set<std::string> read = ColumnsReadBy(parts);
  std::vector<MeasurableColumn> columns = MeasurableColumns(source);
  std::erase_if(columns, [&](const MeasurableColumn& one) { return !read.contains(one.name); });
  return columns;
}

/// Documents that are excluded, if something is measured of documents: one of them may have no
/// length, because it cannot be built.
std::vector<std::uint64_t> ExcludedDocuments(const Source& source, const PlanParts& parts) {
  if (parts.Get<PackPart>().tensor.empty()) return {};
  if (ColumnsToMeasure(source, parts).empty()) return {};
  return parts.Get<ExcludePart>().examples;
}

/// A digest of all that decides what is measured of examples. `build`: as of BuildOf.
Digest128 OperationsOf(const Source& source, const Digest128& build, const PlanParts& parts) {
  // The results of a user's code are measured anew if the code is another one.
  const std::string& code = source.facts().code;
  const std::vector<std::uint64_t> excluded = ExcludedDocuments(source, parts);
  if (code.empty() && excluded.empty()) return build;
  std::string text = fmt::format("{}\n{}", build.ToHex(), code);
  // Pipelines that do not exclude them have to meet what is wrong with them.
  if (!excluded.empty()) text += fmt::format("\nwithout {}", fmt::join(excluded, " "));
  return Xxh3(text);
}

/// The source with the measured columns that the parts read, if they read any. `operations`: as of
/// OperationsOf.
Result<SourcePtr> AddColumns(SourcePtr source, const Digest128& operations,
                             const DrawnDataset& drawn, const SourceServices& services) {
  const PlanParts& parts = *drawn.parts;
  // Tensors that cannot be cut are refused before their lengths are measured.
  Status cut = CheckChunks(*source, parts.Get<ChunkPart>());
  if (cut.ok()) cut = CheckPacks(*source, parts.Get<PackPart>());
  if (!cut.ok()) return AtKey(parts, cut);
  ColumnRequest request;
  request.columns = ColumnsToMeasure(*source, parts);
  if (request.columns.empty()) return source;
  request.dataset_id = drawn.id;
  request.folders = drawn.column_folders;
  request.operations = operations;
  request.source = source;
  request.excluded_examples = ExcludedDocuments(*source, parts);
  request.excluded_files = parts.Get<ExcludePart>().files;
  const Result<MeasuredColumns> values = services.columns.Get(request);
  if (!values.ok()) return AtKey(parts, values.status());
  return WithColumns(source, *values);
}

/// The parts of a pipeline, or a branch, from which its tensors are computed.
struct TensorLevels {
  TensorsPart of_source;  // definitions of functions and what they need, on examples of the dataset
  TensorReaders readers;  // of these
  TensorsPart of_rows;    // on packed rows; unused without `pack`
};

/// `mix`: as TensorReaders::mix.
Result<TensorLevels> LevelsOf(const PlanParts& parts,
                              const std::optional<std::set<std::string>>& mix) {
  const PackPart& pack = parts.Get<PackPart>();
  if (pack.tensor.empty()) {
    return TensorLevels{parts.Get<TensorsPart>(), {ColumnsReadBy(parts), mix}, {}};
  }
  if (!parts.Get<ChunkPart>().tensor.empty()) {
    return AtKey(parts, InvalidArgument("chunk.tensor: expected no chunk beside pack, which cuts "
                                        "documents itself"));
  }
  std::vector<std::string> packed = {pack.tensor};
  packed.insert(packed.end(), pack.with.begin(), pack.with.end());
  MILLRACE_ASSIGN_OR_RETURN(DocumentTensors parted, PartTensors(parts.Get<TensorsPart>(), packed));
  return TensorLevels{std::move(parted.of_documents),
                      {ColumnsReadBy(parts), std::set<std::string>(packed.begin(), packed.end())},
                      std::move(parted.of_rows)};
}

/// Which tensors of pieces something reads. `mix`: as TensorReaders::mix.
PackNeeds NeedsOf(const TensorsPart& part, const std::optional<std::set<std::string>>& mix) {
  PackNeeds needs = PackNeedsOf(part);
  if (!mix) return needs;
  const auto also = [&](bool& need, std::string_view name) {
    need = need || mix->contains(std::string(name));
  };
  also(needs.documents, kPackDocuments);
  also(needs.begins, kPackBegins);
  also(needs.next, kPackNext);
  return needs;
}

/// Where branches pack documents, what the tensors of the mix may read of rows: what those of the
/// first branch are made of.
std::optional<PackTensors> PacksOf(std::span<const DrawnDataset> branches) {
  const PackPart& pack = branches.front().parts->Get<PackPart>();
  if (pack.tensor.empty()) return std::nullopt;
  return PackTensors{pack.tensor, pack.with, static_cast<std::uint32_t>(pack.size)};
}

/// The source of rows, if the parts pack documents, and the tensors that are left to compute from
/// these. `operations`: as of OperationsOf.
Result<PlanSource> AddPacks(SourcePtr documents, const Digest128& operations, TensorsPart part,
                            const std::optional<std::set<std::string>>& mix,
                            const FunctionChance& chance, const DrawnDataset& drawn,
                            const SourceServices& services) {
  const PlanParts& parts = *drawn.parts;
  const PackingOptions options = {.needs = NeedsOf(part, mix),
                                  .operations = operations,
                                  .folders = drawn.column_folders,
                                  .threads = services.threads,
                                  .stop = services.stop};
  auto packed = PackDocuments(std::move(documents), parts, options, services.logger);
  if (!packed.ok()) return AtKey(parts, packed.status());
  SourcePtr source = *std::move(packed);
  part.pack = source->facts().packed;
  MILLRACE_ASSIGN_OR_RETURN(
      const TensorFunctions functions,
      TensorFunctions::Open(part, {{}, mix}, *source, chance, services.plugins));
  TensorsPart rest = functions.Rest(source->tensors());
  MILLRACE_ASSIGN_OR_RETURN(source, functions.AddPure(std::move(source)));
  MILLRACE_ASSIGN_OR_RETURN(source, functions.AddOthers(std::move(source)));
  return PlanSource{std::move(source), std::move(rest)};
}

/// The source of one dataset. `mix`: as TensorReaders::mix.
Result<PlanSource> SourceOf(const DrawnDataset& drawn,
                            const std::optional<std::set<std::string>>& mix,
                            const SourceServices& services) {
  const PlanParts& parts = *drawn.parts;
  MILLRACE_ASSIGN_OR_RETURN(TensorLevels levels, LevelsOf(parts, mix));
  MILLRACE_ASSIGN_OR_RETURN(
      SourcePtr source,
      drawn.kind->sources().Make(parts.Get<SourcePart>().name, drawn.dataset, parts));
  const FunctionChance chance = {
      static_cast<std::uint64_t>(parts.Get<ShufflePart>().seed.value_or(0)), drawn.branch};
  MILLRACE_ASSIGN_OR_RETURN(
      const TensorFunctions functions,
      TensorFunctions::Open(levels.of_source, levels.readers, *source, chance, services.plugins));
  TensorsPart rest = functions.Rest(source->tensors());
  // From the inside out: functions whose results can be kept, the cache, columns measured over what
  // is cached, and either rows, or the functions that are called anew in each epoch.
  MILLRACE_ASSIGN_OR_RETURN(source, functions.AddPure(std::move(source)));
  const Digest128 build = BuildOf(parts, levels.of_source, functions);
  MILLRACE_ASSIGN_OR_RETURN(source, AddCache(std::move(source), build, parts, services));
  const Digest128 operations = OperationsOf(*source, build, parts);
  MILLRACE_ASSIGN_OR_RETURN(source, AddColumns(std::move(source), operations, drawn, services));
  if (!parts.Get<PackPart>().tensor.empty()) {
    return AddPacks(std::move(source), operations, std::move(levels.of_rows), mix, chance, drawn,
                    services);
  }
  MILLRACE_ASSIGN_OR_RETURN(source, functions.AddOthers(std::move(source)));
  return PlanSource{std::move(source), std::move(rest)};
}

/// The source that mixes the sources of all branches, with the functions of the whole pipeline.
Result<PlanSource> MixOf(std::span<const DrawnDataset> drawn, const PlanParts& parts,
                         const SourceServices& services) {
  TensorsPart tensors = parts.Get<TensorsPart>();
  tensors.pack = PacksOf(drawn);
  std::vector<MixedBranch> mixed;
  for (const DrawnDataset& branch : drawn) {
    Result<PlanSource> made = SourceOf(branch, ReadOfBranches(tensors), services);
    if (!made.ok()) {
      return AtKey(*branch.parts, made.status())
          .WithContext(fmt::format("branch {}", branch.branch));
    }
    mixed.push_back({branch.branch, branch.id, std::move(made->source), std::move(made->tensors)});
  }
  MILLRACE_ASSIGN_OR_RETURN(SourcePtr source, MakeMixedSource(std::move(mixed), tensors,
                                                              parts.Get<MixPart>().joint_tables));
  tensors.pack = source->facts().packed;  // of branches the largest size
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
