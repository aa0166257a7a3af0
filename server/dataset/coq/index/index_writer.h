// Writes an index file: sections of known sizes, filled in any order, then checksums and header;
// under a temporary name until it is whole.
//
// Write is thread-safe; everything else is for one thread.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/coq/index/index_format.h"
#include "server/files/file_io.h"

namespace millrace {

/// Entries of every section, by its number - 1.
using SectionCounts = std::array<std::uint64_t, kIndexSections>;

inline std::uint64_t& CountOf(SectionCounts& counts, IndexSection section) {
  return counts[static_cast<std::size_t>(section) - 1];
}

/// What the header says beside the sections.
struct IndexIdentity {
  Digest128 dataset_digest;
  Digest128 host_id;
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
};

class IndexWriter {
 public:
  /// Makes the temporary file `path` + ".tmp", over one that an interrupted writer left. REQUIRES:
  /// nobody else writes this index (index_store holds a lock).
  static Result<IndexWriter> Create(const std::filesystem::path& path, const SectionCounts& counts);
  IndexWriter(IndexWriter&& other) noexcept;
  /// Removes the temporary file unless it was published.
  ~IndexWriter();

  /// Writes entries of a section from number `first`. REQUIRES: they fit.
  template <class T>
  Status Write(IndexSection section, std::uint64_t first, std::span<const T> entries) {
    return WriteBytes(section, first * sizeof(T), std::as_bytes(entries));
  }

  /// Computes checksums, writes the header and waits until all is on disk. Returns the file's
  /// bytes.
  Result<std::uint64_t> Finish(const IndexIdentity& identity);

  /// Gives the file its name, in place of the one that has it. REQUIRES: Finish succeeded.
  Status Publish();

 private:
  IndexWriter(std::filesystem::path path, FileDescriptor file);

  Status WriteBytes(IndexSection section, std::uint64_t offset, std::span<const std::byte> bytes);
  Status FillChecksums();

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once published or moved from
  FileDescriptor file_;
  std::vector<SectionEntry> table_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace millrace
