// `millrace warm`: reads a dataset ahead into the page cache.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/offline/dataset_folder.h"
#include "client/cli/progress.h"
#include "client/cli/stop_signals.h"
#include "server/source/warm.h"

namespace millrace::cli {
namespace {

struct WarmArguments {
  std::string dir;
  std::vector<std::string> arrays;  // empty: all files
  WarmOptions warm;
};

std::string Describe(const WarmReport& report) {
  const auto share = [&](std::uint64_t bytes) {
    return report.bytes == 0 ? 100.0
                             : 100 * static_cast<double>(bytes) / static_cast<double>(report.bytes);
  };
  std::string text = fmt::format(
      "files            {}\n"
      "bytes            {}\n"
      "cached before    {} ({:.1f} %)\n"
      "read             {} in {:.2f} s: {:.1f} MB/s\n"
      "cached now       {} ({:.1f} %)\n",
      report.files, report.bytes, report.cached_before, share(report.cached_before), report.read,
      report.seconds, static_cast<double>(report.read) / 1e6 / std::max(report.seconds, 1e-9),
      report.cached_after, share(report.cached_after));
  if (report.cached_after < report.bytes) {
    text += fmt::format(
        "The page cache is too small: {:.1f} MB of the dataset are not in it. Batches that need "
        "them wait for the disk; give the worker more memory, or more build threads than cores.\n",
        static_cast<double>(report.bytes - report.cached_after) / 1e6);
  }
  return text;
}

Status Warm(const WarmArguments& options) {
  MILLRACE_ASSIGN_OR_RETURN(const DatasetFolder folder, FindDatasetFolder(options.dir));
  MILLRACE_ASSIGN_OR_RETURN(DatasetListing files,
                            options.arrays.empty()
                                ? folder.kind->FilesToWarm(folder.dir)
                                : folder.kind->ArraysToWarm(folder.dir, options.arrays));
  std::stop_source stop;
  const StopSignals signals([&stop] { stop.request_stop(); });
  WarmOptions warm = options.warm;
  warm.stop = stop.get_token();
  std::unique_ptr<Progress> bar;
  warm.begin = [&bar](std::uint64_t total) {
    bar = std::make_unique<Progress>("warming", "bytes", total);
  };
  warm.progress = [&bar](std::uint64_t bytes) { bar->Add(bytes); };
  const Result<WarmReport> report = WarmFiles(folder.dir, std::move(files), warm);
  bar.reset();
  MILLRACE_RETURN_IF_ERROR(report.status());
  std::fputs((KindLine(folder) + Describe(*report)).c_str(), stdout);
  return OkStatus();
}

}  // namespace

void AddWarmCommand(Tool& tool) {
  const auto options = std::make_shared<WarmArguments>();
  CommandLine& command = tool.Add("warm", "Read a dataset ahead into the page cache",
                                  "  millrace warm data\n"
                                  "  millrace warm papers --arrays indptr,indices,node_feature/x\n"
                                  "Says how much was there already, and whether all of it fits.\n",
                                  [options] { return Warm(*options); });
  AddDatasetFolder(command, options->dir);
  command
      .AddOption("--arrays", &options->arrays,
                 "reads only the files of these arrays of a graph dataset, such as "
                 "indptr,indices; default: all files")
      .Delimiter(',')
      .OneValueEach();
  command.AddOption("--threads", &options->warm.threads, "threads that read")
      .Check(WholeNumber(1, kMaxThreads))
      .ShowDefault();
}

}  // namespace millrace::cli
