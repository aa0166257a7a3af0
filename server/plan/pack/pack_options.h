// How documents are packed into rows, and the limits of packing.
//
// *Documents* have any number of elements; *rows* have at most `size` of them. A *piece* is a part
// of a document that lies in one row. In this folder a document is its place in pack order, from 0
// to n − 1, and its length has all elements that it brings along: whoever calls knows which example
// it is, and how many elements are put before and after it.
//
// Values; thread-safe.
#pragma once

#include <cstdint>

namespace millrace {

/// Files use these numbers.
enum class PackMethod : std::uint8_t {
  kConcat = 0,  // document after document; cut where a row ends
  kFit = 1,     // a document that fits a row is not cut; best fit decreasing in each window
};

/// For kFit: what a document above `size` gives. Files use these numbers.
enum class PackAbove : std::uint8_t {
  kSplit = 0,  // pieces of `size` elements, and one of the rest
  kCut = 1,    // its first `size` elements
  kDrop = 2,   // nothing
};

inline constexpr std::uint64_t kMaxPackSize = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxPackWindow = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxPackDocuments = std::uint64_t{1} << 40;
/// The most elements of all documents together.
inline constexpr std::uint64_t kMaxPackElements = std::uint64_t{1} << 63;

struct PackOptions {
  std::uint64_t size = 0;  // the most elements of a row; 1 to kMaxPackSize
  PackMethod method = PackMethod::kFit;
  PackAbove above = PackAbove::kSplit;  // only for kFit
  std::uint64_t window = 4096;          // only for kFit: the most documents that are packed
                                        // together; 1 to kMaxPackWindow
  friend bool operator==(const PackOptions&, const PackOptions&) = default;
};

/// Whether all numbers are within their limits.
constexpr bool IsInLimits(const PackOptions& options) {
  return options.size >= 1 && options.size <= kMaxPackSize &&
         (options.method == PackMethod::kConcat ||
          (options.window >= 1 && options.window <= kMaxPackWindow));
}

}  // namespace millrace
