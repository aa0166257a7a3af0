// The documents of raw files: where a token ends each of them, or begins it. Their lengths are a
// measured column, which is kept in a file as such (docs/formats/columns.md); since no document is
// empty or goes on in another file, the lengths alone say where all of them are.
//
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/source/column_file.h"
#include "server/source/measured_values.h"

namespace millrace {

/// Where the tokens of each file are.
struct RawLayout {
  DType dtype = DType::kUint8;
  std::vector<std::uint64_t> tokens;  // of each file
  std::vector<std::uint64_t> begins;  // byte of the first one

  std::uint64_t all_tokens() const;
};

/// The token that cuts files into documents.
struct DocumentMark {
  bool ends = true;  // a document ends with it; otherwise it begins with it
  std::uint64_t token = 0;

  /// "eos" or "bos"
  const char* key() const { return ends ? "eos" : "bos"; }
};

/// A document, or a sequence, in its file.
struct DocumentPlace {
  std::uint32_t data = 0;    // number of the file among those with tokens
  std::uint64_t number = 0;  // in the file
  std::uint64_t first = 0;   // token, in the file
  std::uint64_t tokens = 0;
};

class MarkedDocuments {
 public:
  /// DataLoss if documents of these lengths do not fill exactly the files. `lengths` has counts.
  static Result<std::shared_ptr<const MarkedDocuments>> Make(MeasuredValues lengths,
                                                             const RawLayout& layout);

  std::uint64_t size() const { return lengths_.size(); }
  const MeasuredValues& lengths() const { return lengths_; }
  std::uint64_t longest() const { return longest_; }
  /// The number of the first document of a file, or, for the number of files, size().
  std::uint64_t FirstOf(std::size_t data) const { return first_[data]; }
  /// REQUIRES: document < size().
  std::uint32_t FileOf(std::uint64_t document) const;
  /// REQUIRES: document < size().
  DocumentPlace Find(std::uint64_t document) const;

 private:
  /// The first token is known of each document whose number is a multiple of this.
  static constexpr std::uint64_t kStride = 16;

  explicit MarkedDocuments(MeasuredValues lengths) : lengths_(std::move(lengths)) {}

  MeasuredValues lengths_;
  std::uint64_t longest_ = 0;
  std::vector<std::uint64_t> first_;   // document of each file; one more than files
  std::vector<std::uint64_t> base_;    // tokens of all files before each file
  std::vector<std::uint64_t> starts_;  // tokens before each document that is known
};

/// The column in which lengths are kept.
ColumnKey MarkedColumn(const Digest128& dataset, const DocumentMark& mark, DType dtype);

/// Reads some tokens of a file, `bytes` of them; they are not read before.
using ReadTokens = std::function<Result<std::span<const std::byte>>(
    std::size_t data, std::uint64_t begin, std::uint64_t bytes)>;

/// The lengths of the documents that a token cuts, found in parallel by one pass over all files.
/// InvalidArgument, beginning with the mark's key, if it occurs nowhere; errors of `read`.
/// `stopped` ends it with Cancelled.
Result<MeasuredValues> FindMarkedLengths(const DocumentMark& mark, const RawLayout& layout,
                                         unsigned threads, const ReadTokens& read,
                                         const std::function<bool()>& stopped);

}  // namespace millrace
