// Where packing reads the lengths of documents.
#pragma once

#include <cstdint>
#include <span>

namespace millrace {

/// The lengths of all documents, in pack order. Immutable; thread-safe.
class DocumentLengths {
 public:
  virtual ~DocumentLengths() = default;
  /// Number of documents, n. At most kMaxPackDocuments.
  virtual std::uint64_t documents() const = 0;
  /// Reads the lengths of consecutive documents, in elements, beginning with `first`. 0 for a
  /// document that has none, or that is to be in no row. REQUIRES: the documents exist.
  virtual void Read(std::uint64_t first, std::span<std::uint64_t> lengths) const = 0;
};

}  // namespace millrace
