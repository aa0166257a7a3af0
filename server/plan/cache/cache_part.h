// The part of a plan that says where its built examples are kept: the key `cache`.
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
