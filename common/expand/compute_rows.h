// The tiles of the compute kernel (compute_kernel.h) that work on rows of ragged tensors.
//
// C++17, because nvcc compiles it too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/expand/compute_access.h"

namespace millrace::kernel {

template <class T>
MILLRACE_HOST_DEVICE void PadTile(const ComputeLaunch& launch, const ComputeTask& task,
                                  const Share& share) {
  const T* const in = ReadAs<T>(launch, task.in);
  const std::int64_t* const splits = ReadAs<std::int64_t>(launch, task.splits);
  T* const out = WriteAs<T>(launch, task.out);
  const Units rows(share, task.row_unit);
  const auto fill = static_cast<T>(task.fill);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const Units::At at = rows.Of(i);
    const auto begin = static_cast<std::uint64_t>(Load(splits + at.unit)) * task.in_unit;
    const auto end = static_cast<std::uint64_t>(Load(splits + at.unit + 1)) * task.in_unit;
    out[i] = at.place < end - begin ? Load(in + begin + at.place) : fill;
  }
}

template <class T>
MILLRACE_HOST_DEVICE void RunsTile(const ComputeLaunch& launch, const ComputeTask& task,
                                   const Share& share) {
  const T* const in = ReadAs<T>(launch, task.in);
  const std::int64_t* const splits = ReadAs<std::int64_t>(launch, task.splits);
  const std::int64_t* const begins = ReadAs<std::int64_t>(launch, task.begins);
  T* const out = WriteAs<T>(launch, task.out);
  const Units units(share, task.out_unit);
  // Later searches need only go between the rows of the first element and the last.
  const std::uint64_t low = RowOf(splits, units.Of(share.begin).unit, 0, task.rows - 1);
  const std::uint64_t high = RowOf(splits, units.Of(share.end - 1).unit, low, task.rows - 1);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const Units::At at = units.Of(i);
    const std::uint64_t row = RowOf(splits, at.unit, low, high);
    const std::uint64_t in_row = at.unit - static_cast<std::uint64_t>(Load(splits + row));
    const std::uint64_t from = static_cast<std::uint64_t>(Load(begins + row)) + in_row;
    out[i] = Load(in + from * task.in_unit + at.place);
  }
}

MILLRACE_HOST_DEVICE inline void LengthTile(const ComputeLaunch& launch, const ComputeTask& task,
                                            const Share& share) {
  const std::int64_t* const splits = ReadAs<std::int64_t>(launch, task.splits);
  std::int64_t* const out = WriteAs<std::int64_t>(launch, task.out);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    out[i] = Load(splits + i + 1) - Load(splits + i);
  }
}

/// Calls `take(i, piece)` for the elements of a share.
template <class Take>
MILLRACE_HOST_DEVICE void ForPieces(const std::int64_t* ends, const ComputeTask& task,
                                    const Share& share, const Take& take) {
  // Later searches need only go between the pieces of the first element and the last.
  const std::uint64_t low = RowOf(ends, share.begin, 0, task.rows - 1);
  const std::uint64_t high = RowOf(ends, share.end - 1, low, task.rows - 1);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    take(i, RowOf(ends, i, low, high));
  }
}

MILLRACE_HOST_DEVICE inline void PositionTile(const ComputeLaunch& launch, const ComputeTask& task,
                                              const Share& share) {
  const std::int64_t* const ends = ReadAs<std::int64_t>(launch, task.splits);
  unsigned char* const out = WriteAs<unsigned char>(launch, task.out);
  ForPieces(ends, task, share, [&](std::uint64_t i, std::uint64_t piece) {
    StoreWord(out, task.word, i, i - static_cast<std::uint64_t>(Load(ends + piece)));
  });
}

MILLRACE_HOST_DEVICE inline void OfPieceTile(const ComputeLaunch& launch, const ComputeTask& task,
                                             const Share& share) {
  const std::int64_t* const ends = ReadAs<std::int64_t>(launch, task.splits);
  const std::int64_t* const numbers = ReadAs<std::int64_t>(launch, task.begins);
  unsigned char* const out = WriteAs<unsigned char>(launch, task.out);
  ForPieces(ends, task, share, [&](std::uint64_t i, std::uint64_t piece) {
    StoreWord(out, task.word, i, static_cast<std::uint64_t>(Load(numbers + piece)));
  });
}

struct NextTile {
  const ComputeLaunch& launch;
  const ComputeTask& task;
  const Share& share;
  template <class T>
  MILLRACE_HOST_DEVICE void operator()(T) const {
    if constexpr (std::is_integral_v<T>) {
      const T* const in = ReadAs<T>(launch, task.in);
      const std::int64_t* const ends = ReadAs<std::int64_t>(launch, task.splits);
      const std::int64_t* const numbers = ReadAs<std::int64_t>(launch, task.begins);
      unsigned char* const out = WriteAs<unsigned char>(launch, task.out);
      ForPieces(ends, task, share, [&](std::uint64_t i, std::uint64_t piece) {
        const bool is_last = i + 1 == static_cast<std::uint64_t>(Load(ends + piece + 1));
        const std::int64_t next =
            is_last ? Load(numbers + piece) : static_cast<std::int64_t>(Load(in + i + 1));
        StoreWord(out, task.word, i, static_cast<std::uint64_t>(next));
      });
    }
  }
};

MILLRACE_HOST_DEVICE inline void SplitsTile(const ComputeLaunch& launch, const ComputeTask& task,
                                            const Share& share) {
  const std::int64_t* const splits = ReadAs<std::int64_t>(launch, task.splits);
  unsigned char* const out = WriteAs<unsigned char>(launch, task.out);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    StoreWord(out, task.word, i, static_cast<std::uint64_t>(Load(splits + i)));
  }
}

}  // namespace millrace::kernel
