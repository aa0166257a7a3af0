// The input of the kernel that computes tensors (compute_kernel.h): a table of tasks, one for each
// step of a program, and the memory that they work on.
//
// C++17, because nvcc compiles it too.
#pragma once

#include <cstdint>

#include "common/base/dtype.h"

namespace millrace::kernel {

enum class ComputeOp : std::uint8_t {
  kMove,        // elements: words; the map gives the source of each
  kBits,        // elements: bytes 0 or 1; the map's places are bits
  kSelect,      // elements: words; one of two values, by the bit at the map's place
  kConvert,     // elements: values; each is fetched as in kMove, and then goes through the passes
  kOneHot,      // elements: bytes
  kPad,         // elements: words of rows that are filled up to one extent
  kRuns,        // elements: words of rows, each a run of the input's row
  kLength,      // elements: rows
  kPosition,    // elements: values; the place of each in its piece
  kOfPiece,     // elements: values; the number of each one's piece
  kNext,        // elements: values; the input's next value, or the number of a piece at its end
  kSplits,      // elements: rows and one more
  kFill,        // elements: words, all equal
  kCheckBools,  // elements: bytes of the input; each is 0 or 1
  kCheckFits,   // elements: values of the input; an integer of `word` bytes has each
};

/// Which memory of a launch.
enum class Memory : std::uint8_t { kPayload, kScratch, kOut, kConstants, kTables };

struct Place {
  std::uint64_t offset = 0;
  Memory memory = Memory::kPayload;
};

/// A conversion, or a product and a sum. It is among the constants.
struct ComputePass {
  DType from = DType::kUint8;
  DType to = DType::kUint8;  // equals `from` if the pass scales
  bool scales = false;
  bool each = false;        // one scale and offset for each value of a unit, or one for all
  std::uint64_t scale = 0;  // their offset among the constants
  std::uint64_t offset = 0;
};

struct ComputeTask {
  ComputeOp op = ComputeOp::kFill;
  DType dtype = DType::kUint8;  // of the input's values
  std::uint8_t word = 1;        // bytes of an element of the output
  std::uint8_t in_word = 1;     // bytes of a value of the input
  bool mapped = false;          // false: values stay where they are in their units
  std::uint32_t passes = 0;
  std::uint64_t first_tile = 0;
  std::uint64_t count = 0;     // number of elements
  std::uint64_t in_unit = 1;   // elements of a unit of the input; kBits and kSelect: its bytes
  std::uint64_t out_unit = 1;  // elements of a unit of the output; kOneHot: of a value
  std::uint64_t row_unit = 1;  // kPad: elements of a row
  std::uint64_t rows = 0;
  std::uint64_t fill = 0;  // kPad and kFill: a word
  Place in;
  Place out;
  Place map;     // std::uint32_t
  Place values;  // kConvert: the passes. kSelect: a unit's values for the bit 0, then for 1
  // std::int64_t: the splits that cut the input; kRuns: the output. kPosition, kOfPiece and kNext:
  // 0, and where each piece ends; `rows` are pieces.
  Place splits;
  // std::int64_t. kRuns: the input's element with which each row begins. kOfPiece and kNext: the
  // number of each piece.
  Place begins;
};

/// The input of one launch. The memory is the device's, except `error`, which the host reads too.
/// No task reads the output of another.
struct ComputeLaunch {
  const unsigned char* payload = nullptr;
  unsigned char* scratch = nullptr;
  unsigned char* out = nullptr;
  const unsigned char* constants = nullptr;
  const unsigned char* tables = nullptr;
  const ComputeTask* tasks = nullptr;
  std::uint32_t task_count = 0;
  std::uint64_t tiles = 0;
  std::uint32_t* error = nullptr;
};

}  // namespace millrace::kernel
