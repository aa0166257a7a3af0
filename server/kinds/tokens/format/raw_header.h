// Files of tokens without an index: what their first bytes say of the tokens.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/dtype.h"
#include "common/base/result.h"

namespace millrace {

enum class RawForm : std::uint8_t {
  kBare,  // nothing but numbers
  kNpy,   // an array of numpy
  kLlmc,  // a header of llm.c
};

/// Where the tokens of a file are.
struct RawHeader {
  RawForm form = RawForm::kBare;
  DType dtype = DType::kUint8;  // unless the file is bare, which does not say its type
  std::uint64_t begin = 0;      // byte of the first token
  std::uint64_t tokens = 0;     // unless it is bare
};

/// Bytes before the tokens in a file of llm.c.
inline constexpr std::uint64_t kLlmcHeaderBytes = 1024;
/// How such files begin: two numbers, by the type of the tokens.
struct LlmcMark {
  std::int32_t magic;
  std::int32_t version;
  DType dtype;
};
inline constexpr LlmcMark kLlmcMarks[] = {{20240520, 1, DType::kUint16},
                                          {20240801, 7, DType::kUint32}};

/// Reads the header of a whole file. A file whose first bytes are those of no header is bare.
/// DataLoss with the error, without the file's name: a header that cannot be read, or of other
/// values than tokens; a file that is longer or shorter than its header says.
Result<RawHeader> ReadRawHeader(std::span<const std::byte> file);

}  // namespace millrace
