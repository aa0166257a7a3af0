#include "client/cli/offline/offline.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "client/cli/numbers.h"
#include "client/cli/progress.h"
#include "common/base/parse_number.h"
#include "common/system/errno_status.h"
#include "common/system/mutex.h"
#include "common/system/stderr_logger.h"
#include "server/catalog/product_kinds.h"
#include "server/source/source.h"

namespace millrace::cli {
namespace {

/// Shows how far the index of a dataset is, from when it begins to be built.
class IndexingProgress {
 public:
  void operator()(const std::string& dataset, const IndexProgress& progress) {
    MutexLock lock(mutex_);
    if (!bar_) bar_.emplace("indexing " + dataset, "bytes", progress.bytes_total);
    bar_->Set(progress.bytes_done);
    if (progress.bytes_done >= progress.bytes_total) bar_.reset();
  }

 private:
  Mutex mutex_;
  std::optional<Progress> bar_ MILLRACE_GUARDED_BY(mutex_);
};

/// Shows how many examples are built to measure columns.
class MeasuringProgress {
 public:
  void operator()(const std::string& dataset, std::uint64_t done, std::uint64_t all) {
    MutexLock lock(mutex_);
    if (!bar_) bar_.emplace("measuring columns of " + dataset, "examples", all);
    bar_->Set(done);
    if (done >= all) bar_.reset();
  }

 private:
  Mutex mutex_;
  std::optional<Progress> bar_ MILLRACE_GUARDED_BY(mutex_);
};

Result<std::uint64_t> ParseField(std::string_view text, const std::string& whole) {
  const Result<std::uint64_t> number = ParseNumber<std::uint64_t>(text);
  if (number.ok()) return *number;
  return InvalidArgument(
      fmt::format("position '{}': expected a number of examples, or EPOCH:EXAMPLES", whole));
}

/// Null if there are none.
Result<std::shared_ptr<PluginRegistry>> OpenPlugins(const std::vector<std::string>& texts) {
  PluginRegistryOptions options;
  for (const std::string& text : texts) {
    Result<PluginConfig> read = ParsePlugin(text);
    if (!read.ok()) return read.status().WithContext("--plugin");
    PluginConfig plugin = *std::move(read);
    if (const char* python = std::getenv("MILLRACE_PYTHON")) plugin.python = python;
    MILLRACE_RETURN_IF_ERROR(CheckPlugin(plugin));
    const std::string name = plugin.name;
    if (!options.plugins.try_emplace(name, std::move(plugin)).second) {
      return InvalidArgument(fmt::format("--plugin {}: '{}' was given before", text, name));
    }
  }
  if (options.plugins.empty()) return std::shared_ptr<PluginRegistry>();
  options.copies = DefaultPluginCopies();
  options.logger = MakeStderrLogger("millrace", LogLevel::kInfo, false);
  return std::make_shared<PluginRegistry>(std::move(options));
}

}  // namespace

void OfflineOptions::AddTo(CommandLine& command) {
  command.AddOption("pipeline", &pipeline_file, "pipeline file (YAML)")
      .Required()
      .TypeName("PIPELINE");
  command
      .AddOption(
          "--dataset", &datasets,
          "where a dataset lies: ID=DIR, or DIR for the one that the pipeline names; KIND:DIR "
          "tells its kind")
      .TypeName("ID=DIR")
      .OneValueEach();
  command
      .AddOption("--plugin", &plugins,
                 "a Python module that the pipeline names, and its folder; its processes run "
                 "$MILLRACE_PYTHON, or python3")
      .TypeName("NAME=FOLDER")
      .OneValueEach();
  command.AddOption("--index", &index_file, "index file of the pipeline's dataset")
      .TypeName("FILE");
  AddSkipBad(command, skip_bad);
  command.AddOption("--variant", &variant, "variant of the pipeline to apply").TypeName("NAME");
  command.AddOption("--set", &overrides, "changes one key of the pipeline; may be repeated")
      .TypeName("KEY=VALUE")
      .OneValueEach();
}

std::string DatasetWithKind(LocalPlans& plans, const std::string& dataset) {
  const auto status = plans.library().GetStatus(dataset);
  return fmt::format("{} ({})", dataset, status.ok() ? status->kind : "");
}

namespace {

/// The source of a branch, or of the whole pipeline if `branch` is empty.
struct NamedSource {
  const Source* source = nullptr;
  std::uint64_t first = 0;  // the number in the plan of its first example
};

Result<NamedSource> FindSource(const Plan& plan, const std::string& branch) {
  const Source& source = *plan.source();
  if (branch.empty()) return NamedSource{&source, 0};
  std::vector<std::string> known;
  for (const SourceBranch& one : source.branches()) {
    known.push_back(one.name);
    if (one.name == branch) return NamedSource{one.source.get(), one.first};
  }
  if (known.empty()) {
    return InvalidArgument(
        fmt::format("--branch {}: expected none, because the pipeline has no branches", branch));
  }
  return NotFound(fmt::format("--branch {}: expected one of {}", branch, fmt::join(known, ", ")));
}

/// OutOfRange unless the source that a user names has this number of something.
Status CheckNumber(std::string_view option, std::uint64_t number, const std::string& branch,
                   std::string_view what, std::uint64_t count) {
  if (number < count) return OkStatus();
  return OutOfRange(fmt::format("--{} {}: {} has {} {}, from 0 on", option, number,
                                branch.empty() ? "the pipeline's source" : "branch " + branch,
                                count, what));
}

}  // namespace

Result<ExampleId> FindExample(const Plan& plan, const std::string& branch, std::uint64_t example) {
  MILLRACE_ASSIGN_OR_RETURN(const NamedSource named, FindSource(plan, branch));
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber("example", example, branch, "examples", named.source->whole_examples()));
  return ExampleId(named.first + example);
}

Result<ExampleId> FindRow(const Plan& plan, const std::string& branch, std::uint64_t row) {
  MILLRACE_ASSIGN_OR_RETURN(const NamedSource named, FindSource(plan, branch));
  if (!named.source->facts().packed) {
    return InvalidArgument(fmt::format(
        "--row {}: expected --example, because the pipeline packs no documents into rows", row));
  }
  MILLRACE_RETURN_IF_ERROR(CheckNumber("row", row, branch, "rows", named.source->examples()));
  return ExampleId(named.first + row);
}

Result<std::vector<ExampleId>> FindParts(const Plan& plan, const std::string& branch,
                                         std::uint64_t example) {
  MILLRACE_ASSIGN_OR_RETURN(const NamedSource named, FindSource(plan, branch));
  const DocumentPacks* const packs = named.source->packs();
  if (packs == nullptr && named.source->facts().packed) {
    return InvalidArgument(
        fmt::format("--example {}: expected --branch beside it, because each branch has documents "
                    "of its own; or --row",
                    example));
  }
  if (packs == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(const ExampleId id, FindExample(plan, branch, example));
    return AllChunksOf(*plan.source(), {&id, 1});
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber("example", example, branch, "examples", packs->documents().examples()));
  MILLRACE_ASSIGN_OR_RETURN(const RowsOfDocument found, packs->RowsOf(ExampleId(example)));
  if (found.why != RowsOfDocument::Why::kHasRows) {
    return NotFound(
        fmt::format("example {} is in no row of this pipeline: {}", example, WhyNoRow(found.why)));
  }
  std::vector<ExampleId> rows;
  for (const RowsOfDocument::Run& run : found.runs) {
    for (std::uint64_t i = 0; i < run.count; ++i) rows.emplace_back(named.first + run.first + i);
  }
  return rows;
}

ExampleDescription DescribeExample(const Plan& plan, const std::string& branch,
                                   std::uint64_t example) {
  const auto named = FindSource(plan, branch);
  const DocumentPacks* const packs = named.ok() ? named->source->packs() : nullptr;
  if (packs != nullptr) return packs->documents().Describe(ExampleId(example));
  const auto id = FindExample(plan, branch, example);
  return id.ok() ? plan.source()->Describe(*id) : ExampleDescription();
}

void AddBranch(CommandLine& command, std::string& branch) {
  command.AddOption("--branch", &branch, "branch of a mix in which --example counts")
      .TypeName("NAME");
}

Result<std::string> ReadTextFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidArgument(path + ": expected a text file, got a folder");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoStatus(path, errno);
  std::string text(kMaxTextFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return ErrnoStatus(path, errno);
  if (text.size() > kMaxTextFileBytes) {
    return InvalidArgument(
        fmt::format("{}: expected at most {} bytes of text, got more", path, kMaxTextFileBytes));
  }
  return text;
}

Result<LocalPlans> OpenOffline(const OfflineOptions& options) {
  PipelineSource source;
  MILLRACE_ASSIGN_OR_RETURN(source.yaml, ReadTextFile(options.pipeline_file));
  source.variant = options.variant;
  source.overrides = options.overrides;
  source.name = options.pipeline_file;
  LocalDatasets datasets;
  MILLRACE_ASSIGN_OR_RETURN(datasets.plugins, OpenPlugins(options.plugins));
  datasets.kinds = ProductKinds(datasets.plugins);
  datasets.index_file = options.index_file;
  datasets.skip_bad = options.skip_bad;
  datasets.advice = ": say where it lies with --dataset ID=DIR";
  for (const std::string& dataset : options.datasets) {
    const std::size_t equals = dataset.find('=');
    const std::string id = equals == std::string::npos ? "" : dataset.substr(0, equals);
    const std::string dir = equals == std::string::npos ? dataset : dataset.substr(equals + 1);
    if (equals == 0 || dir.empty()) {
      return InvalidArgument(fmt::format("--dataset {}: expected ID=DIR", dataset));
    }
    if (!datasets.folders.try_emplace(id, dir).second) {
      return InvalidArgument(fmt::format("--dataset {}: '{}' was given before", dataset, id));
    }
  }
  datasets.progress = [bar = std::make_shared<IndexingProgress>()](const std::string& id,
                                                                   const IndexProgress& progress) {
    (*bar)(id, progress);
  };
  datasets.measuring = [bar = std::make_shared<MeasuringProgress>()](
                           const std::string& id, std::uint64_t done, std::uint64_t all) {
    (*bar)(id, done, all);
  };
  return LocalPlans::Open(source, std::move(datasets));
}

Result<Position> ParsePosition(const std::string& text, std::uint64_t default_epoch) {
  Position position{default_epoch, 0};
  std::string_view rest = text;
  if (const std::size_t colon = text.find(':'); colon != std::string::npos) {
    MILLRACE_ASSIGN_OR_RETURN(position.epoch, ParseField(rest.substr(0, colon), text));
    rest.remove_prefix(colon + 1);
  }
  MILLRACE_ASSIGN_OR_RETURN(position.example, ParseField(rest, text));
  return position;
}

Result<Position> StepsBegin(const StepArithmetic& steps, const std::string& from,
                            std::uint64_t epoch) {
  Position wanted{epoch, 0};
  if (!from.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(wanted, ParsePosition(from, epoch));
  }
  if (wanted.epoch != epoch) {
    return InvalidArgument(
        fmt::format("--from {} lies in epoch {}, expected epoch {}", from, wanted.epoch, epoch));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Position start, steps.Start(wanted));
  if (start.epoch != epoch) {
    return OutOfRange(
        fmt::format("--from {}: `remainder: drop` leaves no step of epoch {} from there on; epoch "
                    "{} comes next",
                    from, epoch, start.epoch));
  }
  return start;
}

void AddSkipBad(CommandLine& command, bool& skip_bad) {
  command.AddFlag("--skip-bad", skip_bad,
                  "index without bad files and those that need them, as if they did not exist");
}

std::string FactText(const ExampleFact& fact) {
  struct Text {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::uint64_t value) const { return std::to_string(value); }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(const std::vector<std::string>& value) const {
      return fmt::format("{}", fmt::join(value, ", "));
    }
  };
  return std::visit(Text{}, fact.value);
}

Status PrintLine(const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size() ||
      std::fputc('\n', stdout) == EOF) {
    return Unavailable("stdout is closed");
  }
  return OkStatus();
}

}  // namespace millrace::cli
