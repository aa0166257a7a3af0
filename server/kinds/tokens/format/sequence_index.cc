#include "server/kinds/tokens/format/sequence_index.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "server/files/array_type.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little);

/// Sums of bytes stay below this, so that none overflows.
constexpr std::uint64_t kMostSequenceBytes = std::uint64_t{1} << 62;

constexpr std::uint64_t kVersion = 1;

template <class T>
T NumberAt(std::span<const std::byte> file, std::size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof(T));
  return value;
}

/// The type with this code; empty if tokens cannot have it.
std::optional<DType> TypeOfCode(std::uint8_t code) {
  switch (code) {
    case 1:
      return DType::kUint8;
    case 2:
      return DType::kInt8;
    case 3:
      return DType::kInt16;
    case 4:
      return DType::kInt32;
    case 5:
      return DType::kInt64;
    case 8:
      return DType::kUint16;
    default:
      return std::nullopt;
  }
}

Status WrongCode(std::uint8_t code) {
  std::string is = std::to_string(code);
  if (code == 6) is += " (float64)";
  if (code == 7) is += " (float32)";
  return DataLoss(fmt::format(
      "says code {} of the type of tokens, expected 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 "
      "(int64) or 8 (uint16)",
      is));
}

/// OK if a file of `size` bytes is as long as its header says.
Status CheckSize(std::uint64_t size, std::uint64_t sequences, std::uint64_t documents) {
  const std::uint64_t rest = size - SequencePlaces::kHeaderBytes;
  const std::string says =
      fmt::format("says that it has {} sequences and {} documents", sequences, documents);
  // After this no sum below overflows.
  if (sequences > rest / SequencePlaces::kBytesOfSequence ||
      documents > rest / sizeof(std::int64_t)) {
    return DataLoss(fmt::format("{}, for which its {} bytes are too few: it is cut off or damaged",
                                says, size));
  }
  const std::uint64_t expected =
      SequencePlaces::kBytesOfSequence * sequences + sizeof(std::int64_t) * documents;
  if (rest == expected) return OkStatus();
  if (sequences > 0 && rest == expected + sequences) {
    return DataLoss(
        fmt::format("{}, and has a byte more for each sequence: it is multimodal, which is not "
                    "supported; write the texts alone",
                    says));
  }
  return DataLoss(fmt::format("has {} bytes, and {}, which take {}: it {}", size, says,
                              SequencePlaces::kHeaderBytes + expected,
                              rest < expected ? "is cut off" : "is too long"));
}

}  // namespace

Result<SequenceCounts> ReadSequenceIndex(std::span<const std::byte> file) {
  const std::string_view begin = TextOfBytes(file).substr(0, kSequenceIndexMagic.size());
  if (!kSequenceIndexMagic.starts_with(begin)) {
    return DataLoss("does not begin with MMIDIDX and two zeros: it is no index of Megatron-LM");
  }
  if (file.size() < SequencePlaces::kHeaderBytes) {
    return DataLoss(fmt::format("has {} bytes: it is cut off within its header of {}", file.size(),
                                SequencePlaces::kHeaderBytes));
  }
  const auto version = NumberAt<std::uint64_t>(file, 9);
  if (version != kVersion) {
    return DataLoss(fmt::format("has version {}, expected {}", version, kVersion));
  }
  const auto code = NumberAt<std::uint8_t>(file, 17);
  const std::optional<DType> dtype = TypeOfCode(code);
  if (!dtype) return WrongCode(code);
  SequenceCounts counts;
  counts.dtype = *dtype;
  counts.sequences = NumberAt<std::uint64_t>(file, 18);
  MILLRACE_RETURN_IF_ERROR(
      CheckSize(file.size(), counts.sequences, NumberAt<std::uint64_t>(file, 26)));
  const SequencePlaces places(file, counts.sequences);
  const std::uint64_t width = DTypeSize(counts.dtype);
  for (std::uint64_t i = 0; i < counts.sequences; ++i) {
    const std::int32_t length = places.Length(i);
    const std::int64_t offset = places.Offset(i);
    if (length < 0) {
      return DataLoss(fmt::format("sequence {}: its length is {}, expected 0 or more", i, length));
    }
    if (offset != static_cast<std::int64_t>(counts.tokens * width)) {
      return DataLoss(
          fmt::format("sequence {}: begins at byte {}, expected {}: the bytes of the sequences "
                      "before it",
                      i, offset, counts.tokens * width));
    }
    counts.tokens += static_cast<std::uint64_t>(length);
    counts.longest = std::max(counts.longest, static_cast<std::uint64_t>(length));
    if (counts.tokens > kMostSequenceBytes / width) {
      return DataLoss(fmt::format("sequence {}: ends behind byte 2^62", i));
    }
  }
  return counts;
}

}  // namespace millrace
