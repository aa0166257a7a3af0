// Code shared by commands that need no server: options, the pipeline's text, datasets and plans.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/base/result.h"
#include "common/epoch/position.h"
#include "server/pipeline/graph/plan_draft.h"
#include "server/pipeline/plan_library.h"
#include "server/pipeline/text/pipeline.h"

namespace millrace::cli {

/// Options of every offline command. The object must live until the command has run.
struct OfflineOptions {
  std::string pipeline_file;
  std::vector<std::string> datasets;  // ID=DIR, or DIR for the dataset that the pipeline names
  std::string index_file;             // index of the pipeline's dataset
  bool skip_bad = false;              // leave bad files out of an index
  std::string variant;
  std::vector<std::string> overrides;

  /// Registers PIPELINE, --dataset, --index, --skip-bad, --variant and --set.
  void AddTo(CLI::App* command);
};

/// A pipeline and its datasets, ready to compile.
class Offline {
 public:
  /// Reads and parses the pipeline. NotFound if the file does not exist. InvalidArgument if a
  /// --dataset is not ID=DIR, or if the pipeline has errors.
  static Result<Offline> Open(const OfflineOptions& options);

  const Pipeline& pipeline() const { return pipeline_; }
  PlanLibrary& library() { return *library_; }
  /// The pipeline's dataset.
  Result<std::shared_ptr<const Dataset>> OpenDataset();
  /// The pipeline's plan.
  Result<std::shared_ptr<const Plan>> Compile() { return library_->Compile(pipeline_); }
  /// The plan of a changed draft. Its fingerprint shares only the dataset's part with that of the
  /// pipeline.
  Result<std::shared_ptr<const Plan>> Compile(const PlanDraft& draft);

 private:
  Offline(Pipeline pipeline, std::unique_ptr<PlanLibrary> library)
      : pipeline_(std::move(pipeline)), library_(std::move(library)) {}

  Pipeline pipeline_;
  std::unique_ptr<PlanLibrary> library_;
};

inline constexpr std::size_t kMaxTextFileBytes = std::size_t{1} << 20;

/// Reads a whole text file. NotFound; PermissionDenied; InvalidArgument if `path` is a folder or
/// the file has more than kMaxTextFileBytes. Each message names the path.
Result<std::string> ReadTextFile(const std::string& path);

/// Parses the value of --from: "N" (the number of examples of the epoch that come before) or "E:N"
/// (the same for epoch E).
Result<Position> ParsePosition(const std::string& text, std::uint64_t default_epoch);

/// The position at which the steps of an epoch begin: the start of the epoch, or `from` (the value
/// of --from; may be empty). InvalidArgument if `from` lies in another epoch. OutOfRange if the
/// epoch has no step from there on. Also the errors of StepArithmetic::Start.
Result<Position> StepsBegin(const StepArithmetic& steps, const std::string& from,
                            std::uint64_t epoch);

/// Lists the files that an index leaves out: their number and the first kShownLeftOut of them.
/// Empty if the index leaves out nothing.
std::string DescribeLeftOut(const DatasetIndex& index);
inline constexpr std::size_t kShownLeftOut = 100;

/// Registers --skip-bad for a command that may have to build an index.
void AddSkipBad(CLI::App* command, bool& skip_bad);

/// Writes a line to stdout. Unavailable if stdout is closed.
Status PrintLine(const std::string& line);

}  // namespace millrace::cli
