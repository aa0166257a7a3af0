// `millrace verify`: compares every byte of a dataset with its index.

#include <cstdio>
#include <memory>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/offline/dataset_folder.h"

namespace millrace::cli {
namespace {

struct VerifyArguments {
  std::string dir;
  DatasetOpenOptions open;
};

Status Verify(const VerifyArguments& options) {
  MILLRACE_ASSIGN_OR_RETURN(const DatasetFolder folder, FindDatasetFolder(options.dir));
  MILLRACE_ASSIGN_OR_RETURN(
      const std::string text,
      WithProgress("verifying", options.open, [&folder](const DatasetOpenOptions& open) {
        return folder.kind->Verify(folder.dir, open);
      }));
  std::fputs((KindLine(folder) + text).c_str(), stdout);
  return OkStatus();
}

}  // namespace

void AddVerifyCommand(Tool& tool) {
  const auto options = std::make_shared<VerifyArguments>();
  CommandLine& command =
      tool.Add("verify", "Compare every file of a dataset with its index, byte for byte",
               "  millrace verify data\n"
               "Files that differ, are gone or are not indexed are all listed; the exit code is "
               "then 3.\n",
               [options] { return Verify(*options); });
  AddDatasetFolder(command, options->dir);
  AddIndexFile(command, options->open);
  AddThreads(command, options->open);
}

}  // namespace millrace::cli
