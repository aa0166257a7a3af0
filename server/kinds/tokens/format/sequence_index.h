// X.idx of Megatron-LM: where the sequences of tokens in X.bin begin, and how long they are.
//
// Little endian, nothing is aligned: 9 bytes "MMIDIDX\0\0"; version 1 (u64); a code of the type of
// tokens (u8); S, the number of sequences, and D (u64 each); S lengths (i32); S offsets in bytes
// (i64); D numbers of documents (i64), which nobody reads here.
//
// Pure functions and values; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "common/base/dtype.h"
#include "common/base/result.h"

namespace millrace {

/// How every X.idx begins. A folder with such a file is a dataset of tokens.
inline constexpr std::string_view kSequenceIndexMagic{"MMIDIDX\0\0", 9};
/// The part of the magic that is text.
inline constexpr std::string_view kSequenceIndexMark = kSequenceIndexMagic.substr(0, 7);

/// The contents of X.bin as X.idx gives them.
struct SequenceCounts {
  DType dtype = DType::kUint8;
  std::uint64_t sequences = 0;
  std::uint64_t tokens = 0;   // of all sequences
  std::uint64_t longest = 0;  // tokens of the longest one

  /// REQUIRES: they were read from an index, which says no more than 2^62 bytes.
  std::uint64_t bytes() const { return tokens * DTypeSize(dtype); }
  friend bool operator==(const SequenceCounts&, const SequenceCounts&) = default;
};

/// Reads and checks all of X.idx, `file`, except the numbers of documents. DataLoss with the error,
/// without the file's name. Allocates nothing.
Result<SequenceCounts> ReadSequenceIndex(std::span<const std::byte> file);

/// Lengths and offsets in the bytes of an X.idx that was checked before. The bytes may have changed
/// since, so nothing about the values is sure.
class SequencePlaces {
 public:
  static constexpr std::uint64_t kHeaderBytes = 34;
  static constexpr std::uint64_t kBytesOfSequence = 12;

  /// REQUIRES: `file` has room for so many sequences.
  SequencePlaces(std::span<const std::byte> file, std::uint64_t sequences)
      : lengths_(file.data() + kHeaderBytes),
        offsets_(lengths_ + sequences * sizeof(std::int32_t)) {}

  std::int32_t Length(std::uint64_t sequence) const {
    return Load<std::int32_t>(lengths_, sequence);
  }
  std::int64_t Offset(std::uint64_t sequence) const {
    return Load<std::int64_t>(offsets_, sequence);
  }

 private:
  template <class T>
  static T Load(const std::byte* from, std::uint64_t number) {
    T value;
    std::memcpy(&value, from + number * sizeof(T), sizeof(T));
    return value;
  }

  const std::byte* lengths_;
  const std::byte* offsets_;
};

}  // namespace millrace
