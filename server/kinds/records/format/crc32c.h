// CRC32C (Castagnoli), the checksum of TFRecord files.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

/// The checksum of `data`, by the processor's instruction if it has one.
std::uint32_t Crc32c(std::span<const std::byte> data);

/// The checksum of the eight bytes of a number, the lowest first: of a record's length. Each step
/// from one record to the next costs one call.
std::uint32_t Crc32cOfWord(std::uint64_t word);

/// A checksum as TFRecord files store it: rotated and offset, so that bytes that hold their own
/// checksums do not have a special checksum.
constexpr std::uint32_t MaskCrc32c(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}
inline std::uint32_t MaskedCrc32c(std::span<const std::byte> data) {
  return MaskCrc32c(Crc32c(data));
}

/// The two ways of computing it, from which Crc32c chooses.
std::uint32_t Crc32cByTable(std::span<const std::byte> data);
/// REQUIRES: HasCrc32cInstruction().
std::uint32_t Crc32cByInstruction(std::span<const std::byte> data);
/// Whether the processor has SSE4.2 and carry-less multiplication, for Crc32cByInstruction.
bool HasCrc32cInstruction();

}  // namespace millrace
