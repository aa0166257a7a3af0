#include "server/kinds/python/python_dataset.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/system/errno_status.h"
#include "server/files/dataset_files.h"
#include "server/files/file_identity.h"
#include "server/plugin/files/plugin_files.h"

namespace millrace {

namespace fs = std::filesystem;

Result<std::shared_ptr<const PythonDataset>> PythonDataset::OfPlugin(const fs::path& dir,
                                                                     const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const FileSet files, ReadFileSet(dir));
  MILLRACE_RETURN_IF_ERROR(CheckHasModule(files, name));
  const std::shared_ptr<PythonDataset> dataset(new PythonDataset());
  dataset->dir_ = dir;
  dataset->digest_ = files.Digest();
  dataset->is_plugin_ = true;
  for (const FileSet::File& file : files.files) {
    dataset->files_.push_back({file.name, file.content.size(), Xxh3(file.content)});
  }
  return std::shared_ptr<const PythonDataset>(dataset);
}

Result<std::shared_ptr<const PythonDataset>> PythonDataset::OfFolder(const fs::path& dir) {
  MILLRACE_RETURN_IF_ERROR(CheckFolder(dir));
  const std::shared_ptr<PythonDataset> dataset(new PythonDataset());
  dataset->dir_ = dir;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().lexically_relative(dir).string();
    if (IsHidden(entry->path().filename().string())) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const Result<FileIdentity> identity = IdentifyFile(entry->path());
    if (!identity.ok()) return identity.status().WithContext(entry->path().string());
    const std::string stamp = fmt::format("{} {}", identity->size, identity->modified_ns);
    dataset->files_.push_back({name, identity->size, Xxh3(stamp)});
  }
  if (error) return ErrnoStatus(fmt::format("folder {}", dir.string()), error.value());
  std::sort(dataset->files_.begin(), dataset->files_.end(),
            [](const DatasetFile& a, const DatasetFile& b) { return a.name < b.name; });
  std::string text;
  for (const DatasetFile& file : dataset->files_) {
    text += fmt::format("{}\n{} {}\n", file.name, file.size, file.digest.ToHex());
  }
  dataset->digest_ = Xxh3(text);
  return std::shared_ptr<const PythonDataset>(dataset);
}

}  // namespace millrace
