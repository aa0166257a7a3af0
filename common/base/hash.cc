#include "common/base/hash.h"

#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace {

Digest128 Xxh3(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

Digest128 Xxh3(std::string_view text) {
  return Xxh3(std::as_bytes(std::span(text.data(), text.size())));
}

std::uint64_t Xxh3_64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

struct Xxh3Stream::State {
  XXH3_state_t xxh;  // declared with an alignment, which new respects since C++17
};

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Xxh3Stream::~Xxh3Stream() = default;
Xxh3Stream::Xxh3Stream(Xxh3Stream&&) noexcept = default;
Xxh3Stream& Xxh3Stream::operator=(Xxh3Stream&&) noexcept = default;

void Xxh3Stream::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

Digest128 Xxh3Stream::Finish() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return {h.high64, h.low64};
}

}  // namespace millrace
