// The work of a device in place of a kernel (operation.h) of the host. A kernel that has a form
// runs on devices too; loops and pad always do.
//
// Value types and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

namespace millrace {

class TensorGraph;

/// Every value becomes `depth` bytes: 1 at its place, otherwise 0. -1 has no place; any other
/// number is an error.
struct OneHotForm {
  std::uint64_t depth;
};

/// Every row of the output is a run of the input's row. The output's splits say how long it is.
struct RunForm {
  /// Where the run begins in a row of `length` elements.
  std::function<std::int64_t(std::int64_t length)> begin;
};

/// The number of elements of each row, int64.
struct LengthForm {};

/// A tensor of packed rows, made of the lengths of their pieces (pack_kernels.h). Every element
/// asks which piece it is in, by the numbers at which pieces end.
struct PieceForm {
  enum class What : std::uint8_t {
    kPosition,  // its place in the piece
    kSegment,   // the piece's number in the row, from 1
    kNext,      // the element behind it; at the piece's end the one that input 2 has for the piece
    kEnds,      // the ends themselves, int32, with those of padding
  };
  What what = What::kPosition;
  std::size_t lengths = 0;      // the input with the lengths of pieces
  std::uint32_t padded_to = 0;  // kEnds: the elements of every row; 0: rows are not padded
};

/// monostate: the kernel runs on the host only.
using DeviceForm = std::variant<std::monostate, OneHotForm, RunForm, LengthForm, PieceForm>;

/// For each node of a graph, whether devices can do everything between it and the given ones.
std::vector<bool> MadeByDevices(const TensorGraph& graph, std::span<const std::size_t> given);

}  // namespace millrace
