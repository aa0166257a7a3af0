// `millrace index`: reads and checks a dataset, and writes its index.

#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/offline/dataset_folder.h"
#include "client/cli/offline/offline.h"
#include "client/cli/stop_signals.h"
#include "common/base/log.h"
#include "common/system/stderr_logger.h"

namespace millrace::cli {
namespace {

struct IndexArguments {
  std::string dir;
  DatasetOpenOptions open;
};

Status RunIndex(const IndexArguments& options) {
  MILLRACE_ASSIGN_OR_RETURN(const DatasetFolder folder, FindDatasetFolder(options.dir));
  std::stop_source stop;
  const StopSignals signals([&stop] { stop.request_stop(); });
  DatasetOpenOptions open = options.open;
  open.logger = MakeStderrLogger("index", LogLevel::kInfo, false);
  open.stop = stop.get_token();
  MILLRACE_ASSIGN_OR_RETURN(
      const std::string text,
      WithProgress("indexing", open, [&folder](const DatasetOpenOptions& with_progress) {
        return folder.kind->Index(folder.dir, with_progress);
      }));
  std::fputs((KindLine(folder) + text).c_str(), stdout);
  return OkStatus();
}

}  // namespace

void AddIndexCommand(Tool& tool) {
  const auto options = std::make_shared<IndexArguments>();
  CommandLine& command = tool.Add(
      "index", "Read and check a dataset, and write its index",
      "  millrace index data\n"
      "  millrace index /mnt/readonly --index /var/lib/millrace/stdlib.index\n"
      "  millrace index data --skip-bad\n"
      "Bad files are all listed; the exit code is then 3. With --skip-bad they are left out, as if "
      "they did not exist. Ctrl-C leaves the index as it was.\n",
      [options] { return RunIndex(*options); });
  AddDatasetFolder(command, options->dir);
  command
      .AddOption("--index", &options->open.index_file,
                 "file of the index (default: DIR/.millrace.index, or in the cache if DIR "
                 "cannot be written)")
      .TypeName("FILE");
  AddThreads(command, options->open);
  AddSkipBad(command, options->open.skip_bad);
  command.AddFlag("--force", options->open.force,
                  "build even if the index fits the files, and read them all");
}

}  // namespace millrace::cli
