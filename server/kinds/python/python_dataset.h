// A plugin, or a folder that a plugin reads, as a dataset.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/source/dataset.h"

namespace millrace {

inline constexpr std::string_view kPythonKind = "python";

class PythonDataset final : public Dataset {
 public:
  /// The files of a plugin. Errors of ReadFileSet, and NotFound if the module `name` is not there.
  static Result<std::shared_ptr<const PythonDataset>> OfPlugin(const std::filesystem::path& dir,
                                                               const std::string& name);
  /// A folder for a plugin: its digest covers its files' names, sizes and times. NotFound or
  /// PermissionDenied.
  static Result<std::shared_ptr<const PythonDataset>> OfFolder(const std::filesystem::path& dir);

  std::string_view kind() const override { return kPythonKind; }
  const std::filesystem::path& dir() const override { return dir_; }
  Digest128 digest() const override { return digest_; }
  std::uint64_t examples() const override { return 0; }  // only the plugin knows
  std::uint64_t file_count() const override { return files_.size(); }
  std::vector<DatasetFile> Files() const override { return files_; }
  FileNews CheckFiles(const std::stop_token& /*stop*/) const override { return {}; }
  bool can_exclude_files() const override { return false; }
  std::vector<DamagedFile> Damages() const override { return {}; }

  /// Whether it is a plugin itself.
  bool is_plugin() const { return is_plugin_; }

 private:
  PythonDataset() = default;

  std::filesystem::path dir_;
  Digest128 digest_;
  std::vector<DatasetFile> files_;
  bool is_plugin_ = false;
};

}  // namespace millrace
