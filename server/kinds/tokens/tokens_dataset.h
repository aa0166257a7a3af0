// An indexed dataset of tokens, as the build of batches reads it: the mapped files, and what was
// found out about their documents.
//
// Thread-safe. The bytes of a file may change at any moment: see IndexedFiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/result.h"
#include "common/system/mutex.h"
#include "server/files/indexed_files.h"
#include "server/kinds/tokens/format/sequence_index.h"
#include "server/kinds/tokens/index/tokens_index.h"
#include "server/kinds/tokens/marked_documents.h"
#include "server/source/dataset.h"
#include "server/source/dataset_kind.h"

namespace millrace {

/// The name of the kind, and of its source.
inline constexpr std::string_view kTokensKind = "tokens";

class TokensDataset final : public Dataset {
 public:
  /// Opens no file yet. `dir` is the folder from which `index` was built, with these options.
  TokensDataset(std::filesystem::path dir, std::shared_ptr<const TokensIndex> index,
                const DatasetOpenOptions& options);

  const TokensIndex& index() const { return *index_; }

  std::string_view kind() const override { return kTokensKind; }
  const std::filesystem::path& dir() const override { return dir_; }
  Digest128 digest() const override { return index_->digest(); }
  std::uint64_t examples() const override;
  std::uint64_t file_count() const override { return index_->data().size(); }
  std::vector<DatasetFile> Files() const override;
  std::uint64_t left_out_count() const override { return index_->left_out().size(); }
  std::vector<BadFile> LeftOut(std::size_t most) const override;
  FileNews CheckFiles(const std::stop_token& stop) const override { return files_.Check(stop); }
  std::vector<DamagedFile> Damages() const override { return files_.Damages(); }
  /// An X.idx cannot be excluded, so that sources say what it is needed for.
  bool LeavesToSources(std::string_view file) const override { return IsSequencesName(file); }

  /// The file with tokens of this number, mapped. DataLoss that names it if it is not the indexed
  /// one. REQUIRES: it has bytes.
  Result<const MappedFile*> OpenData(std::size_t data) const {
    return files_.Open(index_->data()[data].file);
  }
  /// The lengths and places of the sequences of a file. DataLoss as above. REQUIRES: it is one of a
  /// pair.
  Result<SequencePlaces> OpenSequences(std::size_t data) const;
  const std::string& NameOf(std::size_t data) const { return index_->DataFile(data).file.name; }

  /// Notes damage of a file with tokens, or of its X.idx, and returns its DataLoss.
  Status Damaged(std::size_t data, std::string_view what) const;
  Status DamagedSequences(std::size_t data, std::string_view what) const;

  /// The documents into which a token cuts the files, which are raw. They are taken from a kept
  /// column; otherwise all files are read once, and the column is kept. Two callers that want the
  /// same documents find them once. InvalidArgument if no file has the token; FailedPrecondition if
  /// files would have to be read that are `excluded`, by their names; DataLoss; Cancelled.
  /// REQUIRES: `layout` has the files of index().data().
  Result<std::shared_ptr<const MarkedDocuments>> FindMarked(
      const DocumentMark& mark, const RawLayout& layout,
      std::span<const std::string> excluded) const;

 private:
  using MarkedKey = std::tuple<bool, std::uint64_t, DType>;

  /// Reads all files.
  Result<std::shared_ptr<const MarkedDocuments>> ReadMarked(const DocumentMark& mark,
                                                            const RawLayout& layout) const;

  const std::filesystem::path dir_;
  const std::shared_ptr<const TokensIndex> index_;
  const IndexedFiles files_;
  const std::vector<std::filesystem::path> column_folders_;
  const unsigned threads_;
  const std::stop_token stop_;
  const std::shared_ptr<Logger> logger_;
  mutable Mutex finding_;  // held while files are read
  mutable std::map<MarkedKey, std::weak_ptr<const MarkedDocuments>> marked_
      MILLRACE_GUARDED_BY(finding_);
};

}  // namespace millrace
