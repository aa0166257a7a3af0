// Files of tokens: X.idx of Megatron-LM, and the headers of raw files. Byte 0 says which. What a
// header says has to lie in the file, and tokens are copied and searched only there.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/files/npy_header.h"
#include "server/kinds/tokens/format/raw_header.h"
#include "server/kinds/tokens/format/sequence_index.h"
#include "server/kinds/tokens/format/token_copy.h"
#include "server/kinds/tokens/format/token_type.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

namespace millrace::fuzz {
namespace {

void CheckSequences(std::span<const std::byte> file) {
  const auto counts = ReadSequenceIndex(file);
  if (!counts.ok()) {
    Require(counts.status().code() == StatusCode::kDataLoss, "a bad .idx is DataLoss");
    return;
  }
  Require(counts->sequences * SequencePlaces::kBytesOfSequence <= file.size(),
          "sequences lie in the file");
  const SequencePlaces places(file, counts->sequences);
  std::uint64_t tokens = 0;
  std::uint64_t longest = 0;
  for (std::uint64_t i = 0; i < counts->sequences; ++i) {
    Require(places.Length(i) >= 0, "a length is 0 or more");
    Require(places.Offset(i) == static_cast<std::int64_t>(tokens * DTypeSize(counts->dtype)),
            "a sequence begins where the one before ends");
    const auto length = static_cast<std::uint64_t>(places.Length(i));
    tokens += length;
    longest = std::max(longest, length);
  }
  Require(tokens == counts->tokens && longest == counts->longest, "tokens are counted");
}

void CheckTokens(DType dtype, std::span<const std::byte> bytes) {
  const std::uint64_t count = bytes.size() / DTypeSize(dtype);
  std::vector<std::byte> to(count * DTypeSize(TravelType(dtype)));
  const auto wrong = CopyTokens(dtype, bytes, LargestTokenOf(dtype), to.data());
  if (wrong) {
    Require(wrong->place < count, "a wrong token is among those that were copied");
    Require(wrong->value == TokenAt(dtype, bytes.subspan(wrong->place * DTypeSize(dtype))),
            "a wrong token is what the file has");
  }
  std::vector<std::uint32_t> places;
  FindTokens(dtype, bytes, 3, places);
  for (const std::uint32_t place : places) {
    Require(place < count && TokenAt(dtype, bytes.subspan(place * DTypeSize(dtype))) == 3,
            "a token is where it was found");
  }
}

void CheckRaw(std::span<const std::byte> file) {
  const auto header = ReadRawHeader(file);
  if (!header.ok()) {
    Require(header.status().code() == StatusCode::kDataLoss, "a bad header is DataLoss");
    return;
  }
  DType dtype = header->dtype;
  if (header->form == RawForm::kBare) {
    dtype = DType::kInt16;
    file = file.first(file.size() / DTypeSize(dtype) * DTypeSize(dtype));
  } else {
    Require(IsTokenType(dtype), "a type is one of tokens");
    Require(header->begin <= file.size() &&
                header->tokens * DTypeSize(dtype) == file.size() - header->begin,
            "tokens fill the file behind its header");
  }
  CheckTokens(dtype, file.subspan(header->begin));
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  fuzz::Input in(data, size);
  const bool sequences = in.Byte() % 2 == 0;
  const auto file = std::as_bytes(std::span(in.rest()));
  if (sequences) {
    fuzz::CheckSequences(file);
  } else {
    fuzz::CheckRaw(file);
  }
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  for (const std::uint64_t code : {1, 5, 8}) {
    const std::uint64_t width = code == 1 ? 1 : code == 5 ? 8 : 2;
    std::string idx = std::string(1, '\0') + std::string(kSequenceIndexMagic) + NumberBytes(1, 8) +
                      NumberBytes(code, 1) + NumberBytes(3, 8) + NumberBytes(2, 8);
    for (const std::uint64_t length : {4, 0, 7}) idx += NumberBytes(length, 4);
    for (const std::uint64_t before : {0, 4, 4}) idx += NumberBytes(before * width, 8);
    seeds.push_back(idx + NumberBytes(0, 8) + NumberBytes(3, 8));
  }
  for (const DType dtype : {DType::kUint8, DType::kUint16, DType::kInt64}) {
    seeds.push_back("\1" + MakeNpyHeader({dtype, {5}}) + std::string(5 * DTypeSize(dtype), '\3'));
  }
  for (const LlmcMark& mark : kLlmcMarks) {
    std::string file = NumberBytes(static_cast<std::uint64_t>(mark.magic), 4) +
                       NumberBytes(static_cast<std::uint64_t>(mark.version), 4) + NumberBytes(3, 4);
    file.resize(kLlmcHeaderBytes, '\0');
    seeds.push_back("\1" + file + std::string(3 * DTypeSize(mark.dtype), '\1'));
  }
  seeds.push_back(std::string("\1\3\0\3\0\xff\xff\1", 8));
  return seeds;
}
