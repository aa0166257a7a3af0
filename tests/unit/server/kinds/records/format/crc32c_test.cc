#include "server/kinds/records/format/crc32c.h"

#include <catch2/catch.hpp>

#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

/// The definition: a bit at a time.
std::uint32_t PlainCrc32c(std::span<const std::byte> data) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const std::byte byte : data) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

std::vector<std::byte> RandomBytes(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

bool BothGive(std::uint32_t expected, std::span<const std::byte> data) {
  return Crc32cByTable(data) == expected && Crc32c(data) == expected &&
         (!HasCrc32cInstruction() || Crc32cByInstruction(data) == expected);
}

TEST_CASE("CRC32C of the texts whose checksums are published", "[crc32c]") {
  CHECK(BothGive(0xE3069283U, std::as_bytes(std::span(std::string_view("123456789")))));
  CHECK(BothGive(0, {}));
  // RFC 3720, B.4.
  std::vector<std::byte> bytes(32);
  CHECK(BothGive(0x8A9136AAU, bytes));
  for (std::byte& byte : bytes) byte = std::byte{0xFF};
  CHECK(BothGive(0x62A8AB43U, bytes));
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(BothGive(0x46DD794EU, bytes));
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(31 - i);
  CHECK(BothGive(0x113FDB5CU, bytes));
}

TEST_CASE("CRC32C by table and by instruction agree with the definition at all lengths",
          "[crc32c]") {
  const std::vector<std::byte> bytes = RandomBytes(700);
  std::size_t wrong = 0;
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t length = 0; begin + length <= bytes.size(); ++length) {
      const auto data = std::span(bytes).subspan(begin, length);
      if (!BothGive(PlainCrc32c(data), data)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("CRC32C of large data is that of the definition", "[crc32c]") {
  for (const std::size_t length : {3071, 3072, 3073, 6144 + 191, 6144 + 192, 100003, 1 << 20}) {
    CAPTURE(length);
    const std::vector<std::byte> bytes = RandomBytes(length);
    CHECK(BothGive(PlainCrc32c(bytes), bytes));
  }
}

TEST_CASE("CRC32C of a number is that of its bytes", "[crc32c]") {
  for (const std::uint64_t word : {0ULL, 1ULL, 194ULL, 0x0123456789ABCDEFULL, ~0ULL}) {
    CHECK(Crc32cOfWord(word) == Crc32cByTable(std::as_bytes(std::span(&word, 1))));
  }
}

TEST_CASE("a masked checksum is rotated and offset", "[crc32c]") {
  CHECK(MaskCrc32c(0) == 0xA282EAD8U);
  CHECK(MaskCrc32c(0x00008000U) == 0xA282EAD9U);
  CHECK(MaskedCrc32c({}) == 0xA282EAD8U);
}

}  // namespace
}  // namespace millrace
