// The interface of devices. A device expands batches to their delivered form.
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

/// How much of its own memory a device keeps for delivered batches, or for micro-batches. It takes
/// more only for batches that a consumer holds.
struct DeviceLimits {
  std::size_t slots = 4;
  std::uint64_t bytes = std::uint64_t{4} << 30;
};

class Device {
 public:
  virtual ~Device() = default;
  /// The name that SessionOptions::device uses: "host" or, for example, "cuda:0".
  virtual std::string_view name() const = 0;
  /// The delivered form of some rows, in memory of this device. It is complete when the call
  /// returns. OutOfRange if numbers do not fit the index type. DataLoss if the batch is damaged, or
  /// if a tensor cannot be computed from its values.
  virtual Result<std::shared_ptr<const DeliveredBatch>> Expand(
      const std::shared_ptr<const PackedBatch>& packed, const Delivery& delivery,
      RowRange rows) = 0;

  /// The phases of the work that the host does when it computes tensors for this device. An
  /// observer of the delivery is notified of them. They live as long as the device and the
  /// computation.
  virtual std::span<const std::string> host_phases(const Delivery& delivery) {
    return delivery.phases();
  }
  /// The memory into which batches for this device are best received; null: any memory.
  virtual std::shared_ptr<BufferMemory> receive_memory() { return nullptr; }
  /// Called for memory of another process that will hold batches, after it was mapped here for
  /// reading. The result is dropped before the memory is unmapped.
  virtual std::shared_ptr<const void> OnMapped(std::span<const std::byte> /*bytes*/) {
    return nullptr;
  }
  /// For people: the device, and the reason if something is slower than it could be.
  virtual std::string status() const { return std::string(name()); }
};

/// Expands on the calling thread, into recycled memory of the host.
std::shared_ptr<Device> MakeHostDevice();

/// The device with this name. "", "host" and "cpu" are the host; "cuda:N" or "cuda" is a GPU of
/// this machine. InvalidArgument for another name. Unimplemented if this build has no CUDA.
/// NotFound if there is no such GPU.
Result<std::shared_ptr<Device>> MakeDevice(std::string_view name, const DeviceLimits& limits = {});

}  // namespace millrace
