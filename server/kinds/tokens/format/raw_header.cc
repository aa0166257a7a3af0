#include "server/kinds/tokens/format/raw_header.h"

#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "server/files/npy_header.h"
#include "server/kinds/tokens/format/token_type.h"

namespace millrace {
namespace {

constexpr std::string_view kNpyBegins = "\x93NUMPY";

std::int32_t Int32At(std::span<const std::byte> file, std::size_t at) {
  std::int32_t value;
  std::memcpy(&value, file.data() + at, sizeof(value));
  return value;
}

Result<RawHeader> ReadNpy(std::span<const std::byte> file) {
  MILLRACE_ASSIGN_OR_RETURN(const StoredArray array, ReadNpyHeader(file));
  if (array.type.shape.size() != 1) {
    return DataLoss(fmt::format("has the shape {}, expected one axis, such as array.reshape(-1)",
                                ShapeText(array.type.shape)));
  }
  if (!IsTokenType(array.type.dtype)) {
    return DataLoss(fmt::format("holds {} (dtype {}), expected {}", DTypeName(array.type.dtype),
                                NpyTypeText(array.type.dtype), kTokenTypes));
  }
  return RawHeader{RawForm::kNpy, array.type.dtype, array.offset, array.type.shape[0]};
}

Result<RawHeader> ReadLlmc(std::span<const std::byte> file, DType dtype) {
  if (file.size() < kLlmcHeaderBytes) {
    return DataLoss(fmt::format("has {} bytes: it is cut off within its header of {} (llm.c)",
                                file.size(), kLlmcHeaderBytes));
  }
  const std::int32_t count = Int32At(file, 8);
  if (count < 0) {
    return DataLoss(fmt::format("says that it has {} tokens (llm.c), expected 0 or more", count));
  }
  const auto tokens = static_cast<std::uint64_t>(count);
  const std::uint64_t expected = kLlmcHeaderBytes + tokens * DTypeSize(dtype);
  if (file.size() != expected) {
    return DataLoss(
        fmt::format("has {} bytes, expected {} for the {} tokens of {} that it says: "
                    "it {} (llm.c)",
                    file.size(), expected, tokens, DTypeName(dtype),
                    file.size() < expected ? "is cut off" : "is too long"));
  }
  return RawHeader{RawForm::kLlmc, dtype, kLlmcHeaderBytes, tokens};
}

}  // namespace

Result<RawHeader> ReadRawHeader(std::span<const std::byte> file) {
  if (TextOfBytes(file).starts_with(kNpyBegins)) return ReadNpy(file);
  if (file.size() >= 2 * sizeof(std::int32_t)) {
    for (const LlmcMark& mark : kLlmcMarks) {
      if (Int32At(file, 0) == mark.magic && Int32At(file, sizeof(std::int32_t)) == mark.version) {
        return ReadLlmc(file, mark.dtype);
      }
    }
  }
  return RawHeader{};
}

}  // namespace millrace
