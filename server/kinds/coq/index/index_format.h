// The layout of the index file, version 1. docs/formats/coq-index.md describes it for authors of
// readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "common/base/hash.h"
#include "common/base/ids.h"
#include "server/kinds/coq/scan/index_records.h"

namespace millrace {

inline constexpr char kIndexMagic[8] = {'M', 'I', 'L', 'L', 'I', 'D', 'X', '\n'};
inline constexpr std::uint32_t kIndexVersion = 1;
/// Every section begins at a multiple of this.
inline constexpr std::uint64_t kSectionAlignment = 64;

/// Numbers of sections in the file. A number is never used again for another section.
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
  kLeftOut = 18,       // may be missing in an older index, which left nothing out
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
  std::uint64_t count;     // number of entries
  std::uint64_t checksum;  // XXH3-64 of the section's bytes
};
static_assert(sizeof(SectionEntry) == 32);

// Data that are written to the file and read back by address have no padding and the same size
// everywhere.
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

/// XXH3-64 of a header (with 0 as its checksum) and the table that follows it.
std::uint64_t HeaderChecksum(IndexHeader header, std::span<const SectionEntry> table);

/// The dataset's digest, fed file by file. It is XXH3-128 over the data version (uint32) and, for
/// each file in order, the length of its name (uint32), the name, its size (uint64), and its digest
/// (16 bytes, big endian). Integers are little endian. The index's version is not part of it, so
/// the digest stays the same when that version changes.
class DatasetDigest {
 public:
  DatasetDigest();
  void Add(std::string_view name, std::uint64_t size, const Digest128& digest);
  Digest128 Finish() const { return stream_.Finish(); }

 private:
  Xxh3Stream stream_;
};

}  // namespace millrace
