// A dataset's folder as an argument of `millrace index`, `inspect`, `verify` and `warm`.
//
// Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/command_line/command_line.h"
#include "server/source/dataset_kind.h"

namespace millrace::cli {

/// A folder and its kind.
struct DatasetFolder {
  std::filesystem::path dir;
  std::shared_ptr<const DatasetKind> kind;
};

/// Reads DIR or KIND:DIR, and finds the kind of the dataset in the folder. Errors of
/// DatasetKinds::Find.
Result<DatasetFolder> FindDatasetFolder(const std::string& text);

/// The line that says the kind, with which each report about a folder begins.
std::string KindLine(const DatasetFolder& folder);

/// Registers the argument DIR.
void AddDatasetFolder(CommandLine& command, std::string& text);

/// Registers --index and --threads.
void AddIndexFile(CommandLine& command, DatasetOpenOptions& options);
void AddThreads(CommandLine& command, DatasetOpenOptions& options);

/// Calls `work` with options that show progress with a bar, which is named `what`. The bar begins
/// with the first bytes that are read; no bar is shown if nothing has to be read.
Result<std::string> WithProgress(
    const std::string& what, DatasetOpenOptions options,
    const std::function<Result<std::string>(const DatasetOpenOptions&)>& work);

}  // namespace millrace::cli
