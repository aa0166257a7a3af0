#include "common/base/wide_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace::internal {

void WideXxh3(const void* bytes, std::size_t size, std::uint64_t* low, std::uint64_t* high) {
  const XXH128_hash_t h = XXH3_128bits(bytes, size);
  *low = h.low64;
  *high = h.high64;
}

std::uint64_t WideXxh3_64(const void* bytes, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

void WideXxh3Update(void* state, const void* bytes, std::size_t size) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

}  // namespace millrace::internal
