// Takes over an older index's records of files that have not changed, as if the files had been
// scanned again. The resulting index has the same bytes as if every file had been scanned.
//
// Before records are placed, their numbers count within the file. So the numbers in the older index
// have to be changed back. Two things are not in an index. It does not say how far a file's
// references reach into other files; so a file has to be scanned if it depends on a file that has
// fewer nodes than before. And it has a tactic's text only once; so a file that becomes the first
// with a tactic has to be read for that text.
//
// Thread-safe: nothing changes after construction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "server/files/file_identity.h"
#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/scan/file_blob.h"
#include "server/kinds/coq/scan/file_scanner.h"

namespace millrace {

class IndexReuse {
 public:
  /// REQUIRES: index->Verify() is ok.
  explicit IndexReuse(std::shared_ptr<const DatasetIndex> index);

  /// The FileId of a name; kNoRef if the index has no such file.
  std::uint32_t Find(std::string_view name) const;

  /// Whether the file is the indexed one, judged by size, inode and times. If only inode or times
  /// differ, the file is read and its digest decides.
  bool IsUnchanged(const std::filesystem::path& dir, std::uint32_t file,
                   const FileIdentity& now) const;

  /// Fills in the summary that ScanFile would give, with two exceptions: FileSummary::targets say
  /// that nothing is referred to, and FileTactic::text_step is set. DataLoss if a dependency is not
  /// among `names`, as in ScanFile.
  Status Summarize(std::uint32_t file, const NameTable& names, FileSummary& summary) const;
  FileBlob Blob(std::uint32_t file) const;

  /// Number of nodes that a dependency of the file had. `dependency` is a position in the file's
  /// dependencies. REQUIRES: it is a valid position.
  std::uint32_t NodesOfDependency(std::uint32_t file, std::size_t dependency) const;

  /// The text of a tactic of the file. It is `baseText` of a step (given by its number in the
  /// index), read from the file itself.
  Result<std::string> ReadBaseText(const std::filesystem::path& dir, std::uint32_t step) const;

 private:
  /// The steps of a file: the steps of all its definitions.
  Slice Steps(const FileRecord& file) const;
  void SummarizeTactics(std::uint32_t file, FileSummary& summary) const;

  const std::shared_ptr<const DatasetIndex> index_;
  const bool same_host_;
  std::unordered_map<std::string_view, std::uint32_t> files_;  // FileIds by name
  std::vector<std::uint32_t> text_files_;  // for each tactic: the file that gave its text
};

}  // namespace millrace
