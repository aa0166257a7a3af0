#include "server/kinds/python/python_kind.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "server/files/dataset_files.h"
#include "server/kinds/python/plugin_source.h"
#include "server/kinds/python/python_dataset.h"
#include "server/plugin/plugin_config.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class PythonKind final : public DatasetKind {
 public:
  explicit PythonKind(std::shared_ptr<PluginRegistry> plugins)
      : sources_(PluginSources(std::move(plugins))) {}

  std::string_view name() const override { return kPythonKind; }
  std::string_view looks_for() const override {
    return "folder written python:DIR, which a plugin reads";
  }
  /// Any folder can be one, so it has to be told.
  bool IsOne(const fs::path& /*dir*/) const override { return false; }
  const SourceTable& sources() const override { return sources_; }

  OpenedDataset Open(const fs::path& dir, const DatasetOpenOptions& options) const override {
    const std::string_view id = options.id;
    auto dataset =
        id.starts_with(kPluginIdPrefix)
            ? PythonDataset::OfPlugin(dir, std::string(id.substr(kPluginIdPrefix.size())))
            : PythonDataset::OfFolder(dir);
    OpenedDataset opened;
    opened.status = dataset.status();
    if (dataset.ok()) opened.dataset = *std::move(dataset);
    return opened;
  }

  Result<std::string> Inspect(const fs::path& dir,
                              const DatasetOpenOptions& /*options*/) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, PythonDataset::OfFolder(dir));
    std::uint64_t bytes = 0;
    for (const DatasetFile& file : dataset->Files()) bytes += file.size;
    return fmt::format(
        "files            {}\n"
        "bytes            {}\n"
        "digest           {}\n{}",
        dataset->file_count(), bytes, dataset->digest().ToHex(), DescribeLinkedFolders(dir));
  }
  Result<std::string> Verify(const fs::path& dir,
                             const DatasetOpenOptions& /*options*/) const override {
    return FailedPrecondition(
        fmt::format("{} is read by a plugin alone: nothing is known of the contents of its files",
                    dir.string()));
  }

 private:
  const SourceTable sources_;
};

}  // namespace

std::shared_ptr<const DatasetKind> MakePythonKind(std::shared_ptr<PluginRegistry> plugins) {
  return std::make_shared<PythonKind>(std::move(plugins));
}

}  // namespace millrace
