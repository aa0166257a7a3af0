// Where batches are expanded to their delivered form.
//
// Implementations are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/expand/expand.h"

namespace millrace {

class BufferMemory;

/// How much memory a device of its own keeps for delivered batches, or parts of them. More is taken
/// only for those that a consumer holds.
struct DeviceLimits {
  std::size_t slots = 4;
  std::uint64_t bytes = std::uint64_t{4} << 30;
};

class Device {
 public:
  virtual ~Device() = default;
  /// As SessionOptions::device names it: "host", "cuda:0".
  virtual std::string_view name() const = 0;
  /// The delivered form of some rows, in memory of this device, complete when the call returns.
  /// `index_dtype` is int32 or int64; OutOfRange where numbers do not fit it, DataLoss where the
  /// batch is damaged.
  virtual Result<std::shared_ptr<const DeliveredBatch>> Expand(
      const std::shared_ptr<const PackedBatch>& packed, DType index_dtype, RowRange rows) = 0;

  /// Where batches are best received for this device; null: anywhere.
  virtual std::shared_ptr<BufferMemory> receive_memory() { return nullptr; }
  /// Told of memory of another process that was mapped here for reading, and in which batches will
  /// lie. The result is dropped before it is unmapped.
  virtual std::shared_ptr<const void> OnMapped(std::span<const std::byte> /*bytes*/) {
    return nullptr;
  }
  /// For a person: what it is, and what goes slower than it could, and why.
  virtual std::string status() const { return std::string(name()); }
};

/// Expands on the calling thread, into recycled host memory.
std::shared_ptr<Device> MakeHostDevice();

/// The device of a name: "" and "host" and "cpu" for the host, "cuda:N" or "cuda" for a GPU of this
/// machine. InvalidArgument for another name; Unimplemented where this build has no CUDA; NotFound
/// where there is no such GPU.
Result<std::shared_ptr<Device>> MakeDevice(std::string_view name, const DeviceLimits& limits = {});

}  // namespace millrace
