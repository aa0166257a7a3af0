// The pieces of one document with PackMethod::kFit: full ones, which have `size` elements and a row
// of their own, and then at most one that is shorter.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>

#include "server/plan/pack/pack_options.h"

namespace millrace {

struct DocumentCut {
  std::uint64_t full = 0;  // pieces of `size` elements
  std::uint32_t rest = 0;  // elements of the piece behind them; 0: there is none
};

/// REQUIRES: 1 <= size <= kMaxPackSize.
inline DocumentCut CutDocument(std::uint64_t length, std::uint64_t size, PackAbove above) {
  if (length < size) return {0, static_cast<std::uint32_t>(length)};
  if (length == size) return {1, 0};
  switch (above) {
    case PackAbove::kSplit:
      return {length / size, static_cast<std::uint32_t>(length % size)};
    case PackAbove::kCut:
      return {1, 0};
    case PackAbove::kDrop:
      break;
  }
  return {0, 0};
}

}  // namespace millrace
