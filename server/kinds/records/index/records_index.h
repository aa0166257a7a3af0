// The index of a records dataset: its files, the offset of every 16th record, and the features that
// occur. docs/formats/records-index.md describes its file.
//
// Immutable; thread-safe. The offsets are mapped; everything else is in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/files/dataset_files.h"
#include "server/files/indexed_files.h"
#include "server/files/mapped_file.h"

namespace millrace {

/// Every index of a records dataset begins with this.
inline constexpr char kRecordsIndexMagic[8] = {'M', 'I', 'L', 'L', 'R', 'E', 'C', '\n'};
inline constexpr std::uint32_t kRecordsIndexVersion = 1;
/// The version of an index with damaged records, which older readers would read as sound ones.
inline constexpr std::uint32_t kDamagedRecordsIndexVersion = 2;

/// How many records have a feature, by the kind of its list.
struct FeatureCounts {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t floats = 0;
  std::uint64_t integers = 0;

  std::uint64_t records() const { return bytes + floats + integers; }
};

/// The records of a file whose data do not have the checksum in the file. All lengths are right, so
/// the other records are found.
struct DamagedRecords {
  std::uint64_t count = 0;
  std::string first;  // "at byte 489: record 2: checksum of the data"
  Digest128 content;  // of the file as it is
};

/// A file of records, as it was indexed. If records of it are damaged, the digest is the earlier
/// file's digest, if it is known: an earlier index had it with the same frames.
struct RecordsFile {
  IndexedFile file;
  std::uint64_t records = 0;
  std::uint64_t largest = 0;            // bytes of data of the largest record
  std::uint64_t others = 0;             // records whose data are not a tf.train.Example
  std::vector<FeatureCounts> features;  // by the bytes of their names
  /// The digest of the lengths of all records and of the checksums that the file has of their data;
  /// nullopt: an older index does not have it. If it is equal, all sound records are equal.
  std::optional<Digest128> frames = {};
  std::optional<DamagedRecords> damage = {};
};

/// Everything in an index except the offsets.
struct RecordsIndexContent {
  std::vector<RecordsFile> files;  // by the bytes of their names
  std::vector<OmittedFile> left_out;
};

class RecordsIndex {
 public:
  /// The offset of every record whose number in its file is a multiple of this is kept.
  static constexpr std::uint64_t kStride = 16;

  /// The place of a record: `skip` records after the one at `offset`.
  struct Place {
    std::uint32_t file = 0;
    std::uint64_t offset = 0;
    std::uint32_t skip = 0;
    std::uint64_t number = 0;  // of the record, in its file
    std::uint64_t group = 0;   // the number of the kept offset, over all files
  };

  /// NotFound. DataLoss if the file is not an index, or damaged. Messages name the file.
  static Result<std::shared_ptr<const RecordsIndex>> Open(const std::filesystem::path& path);
  /// Writes an index, and replaces any file of the name `path` when it is complete and on disk.
  /// `offsets`: the kept offsets of each file. REQUIRES: nobody else writes this index.
  static Status Write(const std::filesystem::path& path, const RecordsIndexContent& content,
                      std::span<const std::vector<std::uint64_t>> offsets);

  RecordsIndex(const RecordsIndex&) = delete;
  RecordsIndex& operator=(const RecordsIndex&) = delete;

  const std::vector<RecordsFile>& files() const { return content_.files; }
  const std::vector<OmittedFile>& left_out() const { return content_.left_out; }
  /// Whether the identities of files were read on this host.
  bool same_host() const { return same_host_; }
  /// The features that occur in any file, by the bytes of their names.
  const std::vector<FeatureCounts>& features() const { return features_; }
  std::uint64_t records() const { return first_records_.back(); }
  std::uint64_t others() const;
  /// Names, sizes and contents of all files.
  Digest128 digest() const { return digest_; }
  const std::shared_ptr<const MappedFile>& mapped() const { return mapped_; }

  /// The number, in the dataset, of the first record of a file. REQUIRES: there is such a file.
  std::uint64_t FirstRecord(std::uint32_t file) const { return first_records_[file]; }
  /// The file of a record. REQUIRES: record < records().
  std::uint32_t FileOf(std::uint64_t record) const;
  /// REQUIRES: record < records().
  Place Find(std::uint64_t record) const;
  /// The kept offsets of a file, for a new index.
  std::vector<std::uint64_t> OffsetsOf(std::uint32_t file) const;

 private:
  RecordsIndex() = default;

  RecordsIndexContent content_;
  bool same_host_ = false;
  std::vector<FeatureCounts> features_;
  std::vector<std::uint64_t> first_records_;  // one more than files
  std::vector<std::uint64_t> first_offsets_;  // numbers of kept offsets; one more than files
  Digest128 digest_;
  std::shared_ptr<const MappedFile> mapped_;
  const std::byte* offsets_ = nullptr;
};

/// The number of offsets that are kept of a file.
constexpr std::uint64_t KeptOffsets(std::uint64_t records) {
  return (records + RecordsIndex::kStride - 1) / RecordsIndex::kStride;
}

/// The counts of all lists together, by name.
std::vector<FeatureCounts> JoinFeatures(std::span<const RecordsFile> files);

}  // namespace millrace
