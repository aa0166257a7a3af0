// The work of a device for a batch, on the calling thread and in memory of the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/expand/compute_program.h"
#include "common/expand/device_computation.h"
#include "common/expand/expand.h"
#include "common/expand/expand_program.h"
#include "tests/unit/common/expand/compare_batches.h"

namespace millrace::test {

/// Expands and computes a batch; the bytes around its memory are watched. REQUIRES: the layout
/// computes something.
class DeviceRun {
 public:
  DeviceRun(const PackedBatch& packed, const ExpandLayout& layout)
      : packed_(packed), layout_(layout), device_(*layout.computation) {
    out_ = Guarded(layout.bytes);
  }

  /// Runs everything in order. `run` does one launch of the compute kernel.
  Status Run(const std::function<void(const kernel::ComputeLaunch&)>& run = [](const auto& launch) {
    RunOnHost(launch);
  }) {
    Expand();
    const std::vector<DeviceComputation::Run> runs = device_.HostRuns(layout_);
    const std::uint64_t bytes = runs.empty() ? 0 : runs.back().from + runs.back().bytes;
    BufferPool pool(0);
    const std::shared_ptr<Buffer> host = pool.Acquire(bytes).value();
    MILLRACE_RETURN_IF_ERROR(device_.ComputeOnHost(packed_, layout_, host->bytes()));
    for (const DeviceComputation::Run& one : runs) {
      std::memcpy(out() + one.to, host->data() + one.from, one.bytes);
    }
    MILLRACE_ASSIGN_OR_RETURN(program_, device_.ProgramFor(packed_, layout_));
    scratch_ = Guarded(program_.scratch_bytes);
    // Copies that end where the bytes do, so that a sanitizer sees what lies beyond.
    const std::unique_ptr<std::byte[]> constants = CopyOf(device_.constants());
    const std::unique_ptr<std::byte[]> tables = CopyOf(std::as_bytes(std::span(program_.tables)));
    kernel::ComputeLaunch launch;
    launch.payload = reinterpret_cast<const unsigned char*>(packed_.payload().data());
    launch.scratch = reinterpret_cast<unsigned char*>(scratch_->data()) + kGuard;
    launch.out = reinterpret_cast<unsigned char*>(out());
    launch.constants = reinterpret_cast<const unsigned char*>(constants.get());
    launch.tables = reinterpret_cast<const unsigned char*>(tables.get());
    launch.tasks = program_.tasks.data();
    launch.error = &error_;
    for (const ComputeProgram::Level& level : program_.levels) run(LaunchOf(level, launch));
    return OkStatus();
  }

  bool error() const { return error_ != 0; }
  const ComputeProgram& program() const { return program_; }
  const DeviceComputation& device() const { return device_; }
  std::span<const std::byte> bytes() const { return out_->bytes().subspan(kGuard, layout_.bytes); }
  bool wrote_outside() const { return !Untouched(*out_) || (scratch_ && !Untouched(*scratch_)); }

 private:
  static constexpr std::size_t kGuard = 1024;

  static std::shared_ptr<Buffer> Guarded(std::size_t bytes) {
    BufferPool pool(0);
    const std::shared_ptr<Buffer> buffer = pool.Acquire(bytes + 2 * kGuard).value();
    std::memset(buffer->data(), 0xa5, buffer->size());
    return buffer;
  }
  static bool Untouched(const Buffer& buffer) {
    const auto same = [](std::byte b) { return b == std::byte{0xa5}; };
    const std::span<const std::byte> all = buffer.bytes();
    const std::span<const std::byte> front = all.first(kGuard);
    const std::span<const std::byte> back = all.last(kGuard);
    return std::all_of(front.begin(), front.end(), same) &&
           std::all_of(back.begin(), back.end(), same);
  }
  static std::unique_ptr<std::byte[]> CopyOf(std::span<const std::byte> bytes) {
    auto copy = std::make_unique<std::byte[]>(bytes.size());
    if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
    return copy;
  }

  std::byte* out() { return out_->data() + kGuard; }

  void Expand() {
    ExpandProgram program = MakeExpandProgram(packed_, layout_);
    program.launch.payload = reinterpret_cast<const unsigned char*>(packed_.payload().data());
    program.launch.out = reinterpret_cast<unsigned char*>(out());
    program.launch.tasks = program.tasks.data();
    program.launch.error = &error_;
    RunOnHost(program.launch);
  }

  const PackedBatch& packed_;
  const ExpandLayout& layout_;
  const DeviceComputation device_;
  ComputeProgram program_;
  std::shared_ptr<Buffer> out_;
  std::shared_ptr<Buffer> scratch_;
  std::uint32_t error_ = 0;
};

/// Tensors that a device makes of some rows, compared with those of the host.
struct DeviceComparison {
  Status host = OkStatus();  // what the host says
  std::string difference;    // empty: the device says and writes the same
  std::size_t tasks = 0;     // of the kernel that computes tensors
  std::size_t host_outputs = 0;
};

inline DeviceComparison CompareWithHost(const PackedBatch& packed, const Delivery& delivery,
                                        RowRange rows) {
  DeviceComparison compared;
  BufferPool pool(0);
  const auto expected = Expand(packed, delivery, pool, rows);
  compared.host = expected.status();
  const auto layout = LayOutExpanded(packed, delivery, rows);
  if (!layout.ok() || layout->computed.empty()) return compared;
  DeviceRun run(packed, *layout);
  const Status status = run.Run();
  compared.tasks = run.program().tasks.size();
  compared.host_outputs = run.device().host_outputs().size();
  if (run.wrote_outside()) {
    compared.difference = "bytes outside the batch";
  } else if (expected.ok() != (status.ok() && !run.error())) {
    compared.difference = "host: " + expected.status().ToString();
  } else if (!expected.ok()) {
    const Status found = WhatIsWrong(packed, *layout);
    if (found != expected.status()) compared.difference = found.ToString();
  } else if (!SameBytes(run.bytes(), (*expected)->bytes())) {
    compared.difference = FirstDifference(packed, *layout, run.bytes(), (*expected)->bytes());
  }
  return compared;
}

}  // namespace millrace::test
