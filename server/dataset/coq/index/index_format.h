// The index file's layout, version 1: docs/index-format.md describes it for those who write a
// reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "common/base/hash.h"
#include "common/base/ids.h"
#include "server/dataset/coq/scan/index_records.h"

namespace millrace {

inline constexpr char kIndexMagic[8] = {'M', 'I', 'L', 'L', 'I', 'D', 'X', '\n'};
inline constexpr std::uint32_t kIndexVersion = 1;
/// Sections begin at multiples of this.
inline constexpr std::uint64_t kSectionAlignment = 64;

/// Numbers of sections, as they stand in the file. A number is never given to anything else.
enum class IndexSection : std::uint32_t {
  kFiles = 1,
  kHostFiles = 2,
  kDefinitions = 3,
  kClusters = 4,
  kTactics = 5,
  kSteps = 6,
  kOutcomes = 7,
  kDependencyFiles = 8,
  kRequiredFiles = 9,
  kSpines = 10,
  kClusterMembers = 11,
  kContextNodes = 12,
  kArguments = 13,
  kStringOffsets = 14,
  kStringBytes = 15,
  kDefinitionsByNode = 16,
  kBounds = 17,
  kLeftOut = 18,       // may be missing in an older index: nothing was left out
  kLeftOutBytes = 19,  // likewise
};
inline constexpr std::size_t kIndexSections = 19;

std::string_view IndexSectionName(IndexSection section);
/// Bytes of one entry of a section.
std::uint32_t IndexEntryBytes(IndexSection section);

struct IndexHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t section_count;
  std::uint64_t file_bytes;
  std::uint64_t checksum;  // XXH3-64 of header and section table, with this field 0
  std::uint64_t dataset_digest_high;
  std::uint64_t dataset_digest_low;
  std::uint64_t host_id_high;
  std::uint64_t host_id_low;
  std::uint64_t nodes;
  std::uint64_t edges;
  std::uint64_t reserved[6];
};
static_assert(sizeof(IndexHeader) == 128);

/// Follows the header, section_count times.
struct SectionEntry {
  IndexSection section;
  std::uint32_t entry_bytes;
  std::uint64_t offset;    // from the beginning of the file
  std::uint64_t count;     // entries
  std::uint64_t checksum;  // XXH3-64 of the section's bytes
};
static_assert(sizeof(SectionEntry) == 32);

// What is written to the file and read back by address has no padding and one size everywhere.
template <class T>
inline constexpr bool kIsRecord =
    std::is_trivially_copyable_v<T>&& std::has_unique_object_representations_v<T>;
static_assert(kIsRecord<FileRecord> && sizeof(FileRecord) == 80);
static_assert(kIsRecord<HostFileRecord> && sizeof(HostFileRecord) == 24);
static_assert(kIsRecord<DefinitionRecord> && sizeof(DefinitionRecord) == 64);
static_assert(kIsRecord<ClusterRecord> && sizeof(ClusterRecord) == 16);
static_assert(kIsRecord<TacticRecord> && sizeof(TacticRecord) == 16);
static_assert(kIsRecord<StepRecord> && sizeof(StepRecord) == 40);
static_assert(kIsRecord<OutcomeRecord> && sizeof(OutcomeRecord) == 56);
static_assert(kIsRecord<NodeRef> && sizeof(NodeRef) == 8);
static_assert(kIsRecord<IndexBounds> && sizeof(IndexBounds) == 64);
static_assert(kIsRecord<LeftOutRecord> && sizeof(LeftOutRecord) == 56);

/// XXH3-64 of a header (its checksum taken as 0) and the table that follows it.
std::uint64_t HeaderChecksum(IndexHeader header, std::span<const SectionEntry> table);

/// The dataset's digest, fed file by file: XXH3-128 over, little endian, the data version (uint32)
/// and, for each file in order, the length of its name (uint32), the name, its size (uint64), and
/// its digest (16 bytes, big endian). Nothing of the index's version, so that it outlives it.
class DatasetDigest {
 public:
  DatasetDigest();
  void Add(std::string_view name, std::uint64_t size, const Digest128& digest);
  Digest128 Finish() const { return stream_.Finish(); }

 private:
  Xxh3Stream stream_;
};

}  // namespace millrace
