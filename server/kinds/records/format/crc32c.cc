#include "server/kinds/records/format/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "words of data are read as they lie");

/// The polynomial with its bits reversed: bit 31 is the coefficient of x^0.
constexpr std::uint32_t kPolynomial = 0x82F63B78U;

/// `value` times x, modulo the polynomial.
constexpr std::uint32_t TimesX(std::uint32_t value) {
  return (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
}

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

/// Table t gives the effect of a byte that t more bytes follow.
constexpr CrcTables MakeTables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = TimesX(crc);
    tables[0][byte] = crc;
  }
  for (std::size_t t = 1; t < tables.size(); ++t) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[t - 1][byte];
      tables[t][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}
constexpr CrcTables kTables = MakeTables();

std::uint64_t EightBytes(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

std::uint32_t Crc32cByTable(std::span<const std::byte> data) {
  std::uint32_t crc = ~std::uint32_t{0};
  const std::byte* at = data.data();
  std::size_t left = data.size();
  for (; left >= 8; left -= 8, at += 8) {
    const std::uint64_t word = EightBytes(at) ^ crc;
    crc = kTables[7][word & 0xFF] ^ kTables[6][word >> 8 & 0xFF] ^ kTables[5][word >> 16 & 0xFF] ^
          kTables[4][word >> 24 & 0xFF] ^ kTables[3][word >> 32 & 0xFF] ^
          kTables[2][word >> 40 & 0xFF] ^ kTables[1][word >> 48 & 0xFF] ^ kTables[0][word >> 56];
  }
  for (; left > 0; --left, ++at) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*at)) & 0xFF];
  }
  return ~crc;
}

#if defined(__x86_64__)
namespace {

/// x^n modulo the polynomial.
constexpr std::uint32_t PowerOfX(std::size_t n) {
  std::uint32_t value = 0x80000000U;
  for (std::size_t i = 0; i < n; ++i) value = TimesX(value);
  return value;
}

/// The factor that moves a checksum behind `bytes` more bytes. Multiplying two reversed numbers
/// gives one factor x too many, and the instruction that reduces the product gives x^32.
constexpr std::uint32_t ShiftFactor(std::size_t bytes) { return PowerOfX(8 * bytes - 33); }

__attribute__((target("sse4.2,pclmul"))) inline std::uint64_t Shift(std::uint64_t crc,
                                                                    std::uint32_t factor) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<std::int64_t>(crc)),
                           _mm_cvtsi64_si128(static_cast<std::int64_t>(std::uint64_t{factor})), 0);
  return _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)));
}

/// Goes on with `crc` over blocks of three times kBytes. The instruction gives a result after three
/// cycles, but takes a new word in each, so three checksums of neighbouring parts are computed at
/// once and joined.
template <std::size_t kBytes>
__attribute__((target("sse4.2,pclmul"))) inline std::uint64_t ByThrees(std::uint64_t crc,
                                                                       const std::byte*& at,
                                                                       std::size_t& left) {
  constexpr std::uint32_t kOnce = ShiftFactor(kBytes);
  constexpr std::uint32_t kTwice = ShiftFactor(2 * kBytes);
  for (; left >= 3 * kBytes; left -= 3 * kBytes, at += 3 * kBytes) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kBytes; i += 8) {
      crc = _mm_crc32_u64(crc, EightBytes(at + i));
      second = _mm_crc32_u64(second, EightBytes(at + kBytes + i));
      third = _mm_crc32_u64(third, EightBytes(at + 2 * kBytes + i));
    }
    crc = Shift(crc, kTwice) ^ Shift(second, kOnce) ^ third;
  }
  return crc;
}

__attribute__((target("sse4.2,pclmul"))) std::uint32_t ByInstruction(const std::byte* at,
                                                                     std::size_t left) {
  std::uint64_t crc = 0xFFFFFFFFU;
  crc = ByThrees<1024>(crc, at, left);
  crc = ByThrees<64>(crc, at, left);
  for (; left >= 8; left -= 8, at += 8) crc = _mm_crc32_u64(crc, EightBytes(at));
  auto rest = static_cast<std::uint32_t>(crc);
  if (left >= 4) {
    std::uint32_t half;
    std::memcpy(&half, at, sizeof(half));
    rest = _mm_crc32_u32(rest, half);
    left -= 4;
    at += 4;
  }
  for (; left > 0; --left, ++at) rest = _mm_crc32_u8(rest, static_cast<std::uint8_t>(*at));
  return ~rest;
}

__attribute__((target("sse4.2"))) std::uint32_t WordByInstruction(std::uint64_t word) {
  return ~static_cast<std::uint32_t>(_mm_crc32_u64(0xFFFFFFFFU, word));
}

}  // namespace

bool HasCrc32cInstruction() {
  return __builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("pclmul") != 0;
}

std::uint32_t Crc32cByInstruction(std::span<const std::byte> data) {
  return ByInstruction(data.data(), data.size());
}

std::uint32_t Crc32cOfWord(std::uint64_t word) {
  if (HasCrc32cInstruction()) return WordByInstruction(word);
  return Crc32cByTable(std::as_bytes(std::span(&word, 1)));
}

#else

bool HasCrc32cInstruction() { return false; }
std::uint32_t Crc32cByInstruction(std::span<const std::byte> data) { return Crc32cByTable(data); }
std::uint32_t Crc32cOfWord(std::uint64_t word) {
  return Crc32cByTable(std::as_bytes(std::span(&word, 1)));
}

#endif

std::uint32_t Crc32c(std::span<const std::byte> data) {
  return HasCrc32cInstruction() ? Crc32cByInstruction(data) : Crc32cByTable(data);
}

}  // namespace millrace
