// Takes over from an older index what it says of files that have not changed, as if they had been
// scanned again: an index built so is byte for byte the one that scanning every file gives.
//
// Records of a file count within the file before they are placed, so what has to be turned back is
// their numbers. Two things are not in an index: how far a file's references reach into others
// (so a file that depends on one with fewer nodes than before has to be scanned), and the texts of
// tactics that an earlier file gave (so a file that becomes the first with a tactic is asked for
// that text).
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
#include "server/dataset/coq/index/dataset_index.h"
#include "server/dataset/coq/scan/file_blob.h"
#include "server/dataset/coq/scan/file_scanner.h"
#include "server/files/file_identity.h"

namespace millrace {

class IndexReuse {
 public:
  /// REQUIRES: index->Verify() is ok.
  explicit IndexReuse(std::shared_ptr<const DatasetIndex> index);

  /// The FileId of a name; kNone where the index has no such file.
  std::uint32_t Find(std::string_view name) const;

  /// Whether the file is the indexed one, as far as sizes, inodes and times say, and, where only
  /// inodes or times differ, by its digest: then it is read.
  bool IsUnchanged(const std::filesystem::path& dir, std::uint32_t file,
                   const FileIdentity& now) const;

  /// What ScanFile gives of the file, but for FileSummary::targets, which say that nothing is
  /// referred to, and FileTactic::text_step. DataLoss where a dependency is not among `names`, as
  /// ScanFile.
  Status Summarize(std::uint32_t file, const NameTable& names, FileSummary& summary) const;
  FileBlob Blob(std::uint32_t file) const;

  /// Nodes that a dependency of the file had, by its number among them. REQUIRES: it is one.
  std::uint32_t NodesOfDependency(std::uint32_t file, std::size_t dependency) const;

  /// The text of a tactic of the file: `baseText` of a step (its number in the index), read from
  /// the file itself.
  Result<std::string> ReadBaseText(const std::filesystem::path& dir, std::uint32_t step) const;

 private:
  /// The steps of a file, which are those of its definitions.
  Slice Steps(const FileRecord& file) const;
  void SummarizeTactics(std::uint32_t file, FileSummary& summary) const;

  const std::shared_ptr<const DatasetIndex> index_;
  const bool same_host_;
  std::unordered_map<std::string_view, std::uint32_t> files_;  // FileIds by name
  std::vector<std::uint32_t> text_files_;  // by tactic: the file that gave its text
};

}  // namespace millrace
