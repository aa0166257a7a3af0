// `millrace verify`: compares every byte of a dataset with its index.

#include <cstdio>
#include <filesystem>
#include <memory>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/progress.h"
#include "server/dataset/coq/index/index_store.h"
#include "server/dataset/coq/verify.h"

namespace millrace::cli {
namespace {

struct VerifyArguments {
  std::filesystem::path dir;
  IndexOptions index;
};

Status Verify(const VerifyArguments& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const DatasetIndex> index,
                            FindIndex(options.dir, options.index));
  std::uint64_t bytes = 0;
  for (const FileRecord& file : index->files()) bytes += file.size;
  {
    Progress bar("verifying", "bytes", bytes);
    BuildOptions build = options.index.build;
    build.progress = [&bar](const IndexProgress& progress) { bar.Set(progress.bytes_done); };
    MILLRACE_RETURN_IF_ERROR(VerifyDataset(options.dir, *index, build));
  }
  std::printf("%s", fmt::format("{} files, {} bytes: all as indexed\ndigest {}\n",
                                index->files().size(), bytes, index->digest().ToHex())
                        .c_str());
  if (!index->left_out().empty()) {
    std::printf("%s",
                fmt::format("{} files left out of the index\n", index->left_out().size()).c_str());
  }
  return OkStatus();
}

}  // namespace

void AddVerifyCommand(Tool& tool) {
  const auto options = std::make_shared<VerifyArguments>();
  CLI::App* command =
      tool.Add("verify", "Compare every file of a dataset with its index, byte for byte",
               "  millrace verify data\n"
               "Files that differ, are gone or are not indexed are all listed; the exit code is "
               "then 3.\n",
               [options] { return Verify(*options); });
  command->add_option("dir", options->dir, "folder of the dataset")->required()->type_name("DIR");
  command
      ->add_option("--index", options->index.index_file,
                   "file of the index (default: where `millrace index` puts it)")
      ->type_name("FILE");
  command
      ->add_option("--threads", options->index.build.threads, "threads (default: all processors)")
      ->transform(WholeNumber(1, kMaxThreads));
}

}  // namespace millrace::cli
