// An indexed dataset of records (TFRecord files), as the build of batches reads it.
//
// Thread-safe. The bytes of a file may change at any moment: see IndexedFiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/files/indexed_files.h"
#include "server/kinds/records/index/records_index.h"
#include "server/kinds/records/walked_groups.h"
#include "server/source/dataset.h"

namespace millrace {

/// The name of the kind.
inline constexpr std::string_view kRecordsKind = "records";

/// The place of a record in a mapped file.
struct PlacedRecord {
  std::uint32_t file = 0;
  std::uint64_t number = 0;            // in its file
  std::uint64_t offset = 0;            // of its header
  std::span<const std::byte> in = {};  // the whole file
};

class RecordsDataset final : public Dataset {
 public:
  /// Opens no file yet. `dir` is the folder from which `index` was built.
  RecordsDataset(std::filesystem::path dir, std::shared_ptr<const RecordsIndex> index);

  const RecordsIndex& index() const { return *index_; }

  std::string_view kind() const override { return kRecordsKind; }
  const std::filesystem::path& dir() const override { return dir_; }
  Digest128 digest() const override { return index_->digest(); }
  std::uint64_t examples() const override { return index_->records(); }
  std::uint64_t file_count() const override { return index_->files().size(); }
  std::vector<DatasetFile> Files() const override;
  std::uint64_t left_out_count() const override { return index_->left_out().size(); }
  std::vector<BadFile> LeftOut(std::size_t most) const override;
  FileNews CheckFiles(const std::stop_token& stop) const override { return files_.Check(stop); }
  std::vector<DamagedFile> Damages() const override { return files_.Damages(); }
  bool LeavesToSources(std::string_view file) const override;

  /// Finds records, in any order, without reading their data. DataLoss that names file, record
  /// and offset if a header is not the one that was indexed, and notes the damage. REQUIRES: the
  /// ids are below examples().
  Status Find(std::span<const ExampleId> ids, std::vector<PlacedRecord>& found) const;
  /// The data of a record, whose checksums fit. DataLoss as above.
  Result<std::span<const std::byte>> Read(const PlacedRecord& record) const;
  /// As Read, but nullopt if only the checksum of the data is wrong, which is not noted.
  Result<std::optional<std::span<const std::byte>>> ReadSound(const PlacedRecord& record) const;

  /// The bytes of a record's data; nullopt if its header is damaged, which is noted.
  std::optional<std::uint64_t> SizeOf(const PlacedRecord& record) const;

  /// "file a.tfrecord, record 3 at byte 120".
  std::string Where(const PlacedRecord& record) const;

 private:
  /// As Find, for a few records.
  Status FindSome(std::span<const ExampleId> ids, std::span<PlacedRecord> found) const;
  /// Notes damage, and returns its DataLoss.
  Status Damaged(const PlacedRecord& record, std::string_view what) const;

  const std::filesystem::path dir_;
  const std::shared_ptr<const RecordsIndex> index_;
  const IndexedFiles files_;
  mutable WalkedGroups walked_;
};

}  // namespace millrace
