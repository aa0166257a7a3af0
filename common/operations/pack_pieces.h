// Where the pieces of packed rows lie, by their lengths, for kernels and for devices.
//
// Lengths are a ragged tensor of integers: a row of the batch has those of its pieces. A piece has
// at least one element, a row at most kMaxRowElements.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "common/tensor/tensor_view.h"

namespace millrace {

/// No row of `pack` is longer.
inline constexpr std::int64_t kMaxRowElements = std::int64_t{1} << 20;

/// Sets the splits of a tensor that the rows' elements have. InvalidArgument for lengths that no
/// row has.
Status RowSplitsOf(const TensorView& lengths, std::vector<std::int64_t>& splits);

/// Appends 0, and where each piece of the batch ends. REQUIRES: RowSplitsOf succeeds.
void AppendPieceEnds(const TensorView& lengths, std::vector<std::int64_t>& ends);

/// Appends the number of each piece in its row, from 1.
void AppendPieceNumbers(const TensorView& lengths, std::vector<std::int64_t>& numbers);

/// Appends one number of each piece: those of `values`, a ragged tensor of integers.
void AppendIntegers(const TensorView& values, std::vector<std::int64_t>& integers);

/// Sets `ends` to 0, and then where each piece ends if every row has `padded_to` elements: what a
/// row lacks is one more piece. With 0, rows are as long as they are. InvalidArgument for lengths
/// that no row has, for a row that is longer, and if the last number is 2^31 or more.
Status PaddedEndsOf(const TensorView& lengths, std::uint32_t padded_to,
                    std::vector<std::int64_t>& ends);

}  // namespace millrace
