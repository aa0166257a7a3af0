// Operations as plain loops over single values, to compare with. It shares no code with them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/common/operations/run_graph.h"

namespace millrace::test {

/// A tensor whose values are held as the bits that they have in memory. Its axes are those of one
/// unit, an element or a row.
struct PlainTensor {
  TensorType type;
  std::uint64_t rows = 0;
  std::vector<std::int64_t> splits = {};
  std::vector<std::uint64_t> values = {};

  static PlainTensor From(const Tensor& tensor);
  Tensor ToTensor() const;
};

/// The value `bits` of type `from` as one of type `to`.
std::uint64_t PlainConvert(std::uint64_t bits, DType from, DType to);
/// value * scale + offset in `compute`; all are values of that type.
std::uint64_t PlainScale(std::uint64_t value, std::uint64_t scale, std::uint64_t offset,
                         DType compute);

PlainTensor PlainBits(const PlainTensor& in, bool lowest_first);
/// Places of axis `axis`, counted among the inner ones.
PlainTensor PlainTake(const PlainTensor& in, std::size_t axis,
                      const std::vector<std::int64_t>& index);
PlainTensor PlainTranspose(const PlainTensor& in, const std::vector<std::size_t>& axes);
PlainTensor PlainView(const PlainTensor& in, DType dtype);
PlainTensor PlainCast(const PlainTensor& in, DType dtype);

}  // namespace millrace::test
