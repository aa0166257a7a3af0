// The part of a plan that says where what is built of its examples is kept: the key `cache`.
//
// Value type.
#pragma once

#include <cstdint>

namespace millrace {

enum class CacheLevel : std::uint8_t {
  kNone,
  kMemory,
  kDisk,  // and in memory
};

struct CachePart {
  CacheLevel examples = CacheLevel::kNone;
};

}  // namespace millrace
