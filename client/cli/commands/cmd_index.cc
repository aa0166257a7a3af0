// `millrace index`: reads and checks a dataset, and writes its index.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/offline/offline.h"
#include "client/cli/progress.h"
#include "client/cli/stop_signals.h"
#include "common/base/log.h"
#include "common/system/stderr_logger.h"
#include "server/dataset/coq/index/index_store.h"

namespace millrace::cli {
namespace {

struct IndexArguments {
  std::filesystem::path dir;
  IndexOptions index;
};

std::string Describe(const IndexReport& report) {
  return fmt::format(
      "indexed          {} of {} files anew, {} unchanged\n"
      "built            {} nodes in {:.2f} s on {} thread{}: {:.2f} M nodes/s\n"
      "dataset bytes    {}\n"
      "index bytes      {} ({:.1f} an example)\n"
      "peak memory      {:.1f} MB, mapped files left out\n",
      report.files - report.unchanged_files, report.files, report.unchanged_files, report.nodes,
      report.seconds, report.threads, report.threads == 1 ? "" : "s",
      report.nodes_per_second() / 1e6, report.dataset_bytes, report.index_bytes,
      report.index_bytes_per_example(), static_cast<double>(report.peak_memory_bytes) / 1e6);
}

Status RunIndex(const IndexArguments& options) {
  std::stop_source stop;
  const StopSignals signals([&stop] { stop.request_stop(); });
  IndexOptions with_progress = options.index;
  with_progress.logger = MakeStderrLogger("index", LogLevel::kInfo, false);
  with_progress.build.stop = stop.get_token();
  // The bar is made only when there is work to do: no progress is shown for an index that fits.
  std::unique_ptr<Progress> bar;
  with_progress.build.progress = [&bar](const IndexProgress& progress) {
    if (!bar) bar = std::make_unique<Progress>("indexing", "bytes", progress.bytes_total);
    bar->Set(progress.bytes_done);
  };
  IndexOutcome outcome;
  const auto opened = OpenOrBuildIndex(options.dir, with_progress, &outcome);
  bar.reset();
  if (!opened.ok()) return opened.status();
  const DatasetIndex& index = **opened;
  std::printf("%s",
              fmt::format("index            {}\n"
                          "digest           {}\n"
                          "files            {}\n"
                          "nodes            {}\n"
                          "edges            {}\n"
                          "definitions      {}\n"
                          "clusters         {}\n"
                          "proof states     {}\n"
                          "tactics          {}\n",
                          outcome.file.string(), index.digest().ToHex(), index.files().size(),
                          index.nodes(), index.edges(), index.definitions().size(),
                          index.clusters().size(), index.outcomes().size(), index.tactics().size())
                  .c_str());
  if (!index.left_out().empty())
    std::printf("left out         %zu files\n", index.left_out().size());
  std::printf("%s", outcome.built ? Describe(outcome.report).c_str()
                                  : "built            no: the index fits the files (--force builds "
                                    "it again)\n");
  return OkStatus();
}

}  // namespace

void AddIndexCommand(Tool& tool) {
  const auto options = std::make_shared<IndexArguments>();
  CLI::App* command = tool.Add(
      "index", "Read and check a dataset, and write its index",
      "  millrace index data\n"
      "  millrace index /mnt/readonly --index /var/lib/millrace/stdlib.index\n"
      "  millrace index data --skip-bad\n"
      "Bad files are all listed; the exit code is then 3. With --skip-bad they are left out, as if "
      "they did not exist. Ctrl-C leaves the index as it was.\n",
      [options] { return RunIndex(*options); });
  command->add_option("dir", options->dir, "folder of the dataset")->required()->type_name("DIR");
  command
      ->add_option("--index", options->index.index_file,
                   "file of the index (default: DIR/.millrace.index, or in the cache if DIR "
                   "cannot be written)")
      ->type_name("FILE");
  command
      ->add_option("--threads", options->index.build.threads, "threads (default: all processors)")
      ->transform(WholeNumber(1, kMaxThreads));
  AddSkipBad(command, options->index.build.skip_bad);
  command->add_flag("--force", options->index.force,
                    "build even if the index fits the files, and read them all");
}

}  // namespace millrace::cli
