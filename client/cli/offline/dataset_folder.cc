#include "client/cli/offline/dataset_folder.h"

#include <fmt/core.h>

#include "client/cli/numbers.h"
#include "client/cli/progress.h"
#include "server/catalog/product_kinds.h"

namespace millrace::cli {

Result<DatasetFolder> FindDatasetFolder(const std::string& text) {
  const DatasetPlace place = ParseDatasetPlace(text);
  MILLRACE_ASSIGN_OR_RETURN(auto kind, ProductKinds().Find(place.dir, place.kind));
  return DatasetFolder{place.dir, std::move(kind)};
}

std::string KindLine(const DatasetFolder& folder) {
  return fmt::format("kind             {}\n", folder.kind->name());
}

void AddDatasetFolder(CommandLine& command, std::string& text) {
  command.AddOption("dir", &text, "folder of the dataset; KIND:DIR tells its kind")
      .Required()
      .TypeName("DIR");
}

void AddIndexFile(CommandLine& command, DatasetOpenOptions& options) {
  command
      .AddOption("--index", &options.index_file,
                 "file of the index (default: where `millrace index` puts it)")
      .TypeName("FILE");
}

void AddThreads(CommandLine& command, DatasetOpenOptions& options) {
  command.AddOption("--threads", &options.threads, "threads (default: all processors)")
      .Check(WholeNumber(1, kMaxThreads));
}

Result<std::string> WithProgress(
    const std::string& what, DatasetOpenOptions options,
    const std::function<Result<std::string>(const DatasetOpenOptions&)>& work) {
  std::unique_ptr<Progress> bar;
  options.progress = [&bar, &what](const IndexProgress& progress) {
    if (!bar) bar = std::make_unique<Progress>(what, "bytes", progress.bytes_total);
    bar->Set(progress.bytes_done);
  };
  return work(options);
}

}  // namespace millrace::cli
