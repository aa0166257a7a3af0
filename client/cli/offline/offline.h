// Code that the commands without a server share: options, positions and output.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/local/local_plans.h"
#include "common/base/example_description.h"
#include "common/base/result.h"
#include "common/command_line/command_line.h"
#include "common/epoch/position.h"

namespace millrace::cli {

/// Options of every offline command. Has to live until the command has run.
struct OfflineOptions {
  std::string pipeline_file;
  std::vector<std::string> datasets;  // ID=DIR, or DIR for the pipeline's own
  std::vector<std::string> plugins;   // NAME=FOLDER
  std::string index_file;             // of the pipeline's dataset
  bool skip_bad = false;              // index without bad files
  std::string variant;
  std::vector<std::string> overrides;

  /// Registers PIPELINE, --dataset, --plugin, --index, --skip-bad, --variant and --set.
  void AddTo(CommandLine& command);
};

/// Reads and parses the pipeline. NotFound for a file that is not there, InvalidArgument for a
/// --dataset that is not ID=DIR and for errors in the pipeline.
Result<LocalPlans> OpenOffline(const OfflineOptions& options);

/// "citations (graph)": a dataset and its kind. REQUIRES: the dataset was opened.
std::string DatasetWithKind(LocalPlans& plans, const std::string& dataset);

/// The number in the plan of an example that a user names by its number, in a branch if `branch` is
/// not empty. OutOfRange, InvalidArgument or NotFound, with the possible values, if there is no
/// such example.
Result<ExampleId> FindExample(const Plan& plan, const std::string& branch, std::uint64_t example);

/// The number in the plan of a row of packed documents, found in the same way. InvalidArgument if
/// the pipeline packs none.
Result<ExampleId> FindRow(const Plan& plan, const std::string& branch, std::uint64_t row);

/// The examples of the plan that have a part of an example that a user names: itself, its chunks,
/// or the rows with a piece of it, ascending. Errors of FindExample; NotFound with the reason if no
/// row has a piece of it.
Result<std::vector<ExampleId>> FindParts(const Plan& plan, const std::string& branch,
                                         std::uint64_t example);

/// Describes an example that a user names, as its own source does, before documents are packed.
/// REQUIRES: FindExample finds it.
ExampleDescription DescribeExample(const Plan& plan, const std::string& branch,
                                   std::uint64_t example);

/// Registers --branch.
void AddBranch(CommandLine& command, std::string& branch);

inline constexpr std::size_t kMaxTextFileBytes = std::size_t{1} << 20;

/// A whole text file. NotFound, PermissionDenied, or InvalidArgument for a folder and for more than
/// kMaxTextFileBytes; each names it.
Result<std::string> ReadTextFile(const std::string& path);

/// Reads --from: "N" (examples of the epoch that come before) or "E:N".
Result<Position> ParsePosition(const std::string& text, std::uint64_t default_epoch);

/// Where the steps of an epoch begin: at its start, or at `from` (--from; may be empty).
/// InvalidArgument if `from` is in another epoch, OutOfRange if the epoch has no step from there
/// on, and all errors of StepArithmetic::Start.
Result<Position> StepsBegin(const StepArithmetic& steps, const std::string& from,
                            std::uint64_t epoch);

/// Registers --skip-bad of a command that may have to index.
void AddSkipBad(CommandLine& command, bool& skip_bad);

/// The value of a fact, as text.
std::string FactText(const ExampleFact& fact);

/// Writes a line to stdout. Unavailable if stdout is closed.
Status PrintLine(const std::string& line);

}  // namespace millrace::cli
