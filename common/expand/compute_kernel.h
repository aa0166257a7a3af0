// Computing tensors as a kernel. It writes the same bytes as a program on the host (common/
// operations/program.h), in tiles that may run in any order, so that thousands of threads of a GPU
// can share the work. A CPU can run the same code.
//
// Values are converted and scaled by the functions that the host uses (common/tensor). Sources that
// use this kernel are compiled without contraction, as on the host.
//
// If a value is wrong, the error word is set, and nothing is written outside the tensors.
//
// C++17, because nvcc compiles it too.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/expand/compute_rows.h"
#include "common/expand/compute_values.h"

namespace millrace::kernel {

template <class T>
MILLRACE_HOST_DEVICE void FillTile(const ComputeLaunch& launch, const ComputeTask& task,
                                   const Share& share) {
  T* const out = WriteAs<T>(launch, task.out);
  const auto fill = static_cast<T>(task.fill);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    out[i] = fill;
  }
}

MILLRACE_HOST_DEVICE inline void CheckBoolsTile(const ComputeLaunch& launch,
                                                const ComputeTask& task, const Share& share) {
  const unsigned char* const in = ReadAt(launch, task.in);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    if (Load(in + i) > 1) *launch.error = 1;
  }
}

struct CheckFitsTile {
  const ComputeLaunch& launch;
  const ComputeTask& task;
  const Share& share;
  template <class T>
  MILLRACE_HOST_DEVICE void operator()(T) const {
    if constexpr (std::is_integral_v<T>) {
      const T* const in = ReadAs<T>(launch, task.in);
      for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
        const T value = Load(in + i);
        const bool fits = task.word == 4 ? Fits<std::int32_t>(value) : Fits<std::int64_t>(value);
        if (!fits) *launch.error = 1;
      }
    }
  }
};

/// Does a share of a task whose elements are words.
template <class T>
MILLRACE_HOST_DEVICE void RunWords(const ComputeLaunch& launch, const ComputeTask& task,
                                   const Share& share) {
  switch (task.op) {
    case ComputeOp::kMove:
      return MoveTile<T>(launch, task, share);
    case ComputeOp::kSelect:
      return SelectTile<T>(launch, task, share);
    case ComputeOp::kPad:
      return PadTile<T>(launch, task, share);
    case ComputeOp::kFill:
      return FillTile<T>(launch, task, share);
    default:
      return RunsTile<T>(launch, task, share);
  }
}

MILLRACE_HOST_DEVICE inline void RunTask(const ComputeLaunch& launch, const ComputeTask& task,
                                         const Share& share) {
  switch (task.op) {
    case ComputeOp::kBits:
      return BitsTile(launch, task, share);
    case ComputeOp::kConvert:
      return ConvertTile(launch, task, share);
    case ComputeOp::kOneHot:
      return VisitValues(task.dtype, OneHotTile{launch, task, share});
    case ComputeOp::kLength:
      return LengthTile(launch, task, share);
    case ComputeOp::kPosition:
      return PositionTile(launch, task, share);
    case ComputeOp::kOfPiece:
      return OfPieceTile(launch, task, share);
    case ComputeOp::kNext:
      return VisitValues(task.dtype, NextTile{launch, task, share});
    case ComputeOp::kSplits:
      return SplitsTile(launch, task, share);
    case ComputeOp::kCheckBools:
      return CheckBoolsTile(launch, task, share);
    case ComputeOp::kCheckFits:
      return VisitValues(task.dtype, CheckFitsTile{launch, task, share});
    case ComputeOp::kMove:
    case ComputeOp::kSelect:
    case ComputeOp::kPad:
    case ComputeOp::kRuns:
    case ComputeOp::kFill:
      break;
  }
  switch (task.word) {
    case 1:
      return RunWords<std::uint8_t>(launch, task, share);
    case 2:
      return RunWords<std::uint16_t>(launch, task, share);
    case 4:
      return RunWords<std::uint32_t>(launch, task, share);
    default:
      return RunWords<std::uint64_t>(launch, task, share);
  }
}

/// Does the part of a tile that belongs to thread `thread` of `threads`. REQUIRES: tile <
/// launch.tiles.
MILLRACE_HOST_DEVICE inline void RunTile(const ComputeLaunch& launch, std::uint64_t tile,
                                         std::uint32_t thread, std::uint32_t threads) {
  const ComputeTask& task = TaskOfTile(launch.tasks, launch.task_count, tile);
  RunTask(launch, task, ShareOfTile(task, tile, thread, threads));
}

}  // namespace millrace::kernel
