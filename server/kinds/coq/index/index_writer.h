// Writes an index file: sections of known sizes, filled in any order, then checksums and header.
// The file has a temporary name until it is complete.
//
// Write is thread-safe; everything else is for one thread.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "server/files/file_io.h"
#include "server/kinds/coq/index/index_format.h"

namespace millrace {

/// Number of entries of every section; section n is at position n - 1.
using SectionCounts = std::array<std::uint64_t, kIndexSections>;

inline std::uint64_t& CountOf(SectionCounts& counts, IndexSection section) {
  return counts[static_cast<std::size_t>(section) - 1];
}

/// Data of the header in addition to the sections.
struct IndexIdentity {
  Digest128 dataset_digest;
  Digest128 host_id;
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
};

class IndexWriter {
 public:
  /// Creates the temporary file `path` + ".tmp". It replaces one that an interrupted writer left.
  /// REQUIRES: nobody else writes this index (index_store holds a lock).
  static Result<IndexWriter> Create(const std::filesystem::path& path, const SectionCounts& counts);
  IndexWriter(IndexWriter&& other) noexcept;
  /// Removes the temporary file, unless it was published.
  ~IndexWriter();

  /// Writes entries of a section, beginning at number `first`. REQUIRES: they fit.
  template <class T>
  Status Write(IndexSection section, std::uint64_t first, std::span<const T> entries) {
    return WriteBytes(section, first * sizeof(T), std::as_bytes(entries));
  }

  /// Computes checksums, writes the header and waits until everything is on disk. Returns the
  /// file's size in bytes.
  Result<std::uint64_t> Finish(const IndexIdentity& identity);

  /// Renames the temporary file to the index's name, and so replaces an existing index. REQUIRES:
  /// Finish succeeded.
  Status Publish();

 private:
  IndexWriter(std::filesystem::path path, FileDescriptor file);

  Status WriteBytes(IndexSection section, std::uint64_t offset, std::span<const std::byte> bytes);
  Status FillChecksums();

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty after Publish or a move
  FileDescriptor file_;
  std::vector<SectionEntry> table_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace millrace
