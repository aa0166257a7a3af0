#include "common/base/hash.h"

#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/wide_hash.h"

namespace millrace {
namespace {

/// Whether so many bytes are worth a call of wide_hash.h, and the processor can do it.
bool IsWide(std::size_t bytes) {
#if defined(__x86_64__)
  return bytes > XXH3_MIDSIZE_MAX && __builtin_cpu_supports("avx2") != 0;
#else
  static_cast<void>(bytes);
  return false;
#endif
}

}  // namespace

Digest128 Xxh3(std::span<const std::byte> bytes) {
  if (IsWide(bytes.size())) {
    Digest128 digest;
    internal::WideXxh3(bytes.data(), bytes.size(), &digest.low, &digest.high);
    return digest;
  }
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

Digest128 Xxh3(std::string_view text) {
  return Xxh3(std::as_bytes(std::span(text.data(), text.size())));
}

std::uint64_t Xxh3_64(std::span<const std::byte> bytes, std::uint64_t seed) {
  if (IsWide(bytes.size())) return internal::WideXxh3_64(bytes.data(), bytes.size(), seed);
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
  if (IsWide(bytes.size())) {
    internal::WideXxh3Update(&state_->xxh, bytes.data(), bytes.size());
  } else {
    XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  }
}

Digest128 Xxh3Stream::Finish() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return {h.high64, h.low64};
}

}  // namespace millrace
