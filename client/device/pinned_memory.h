// Memory of the host that an accelerator can copy from on its own: memory that it gave out, and
// memory of others that was registered with it.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "client/device/accelerator.h"
#include "common/batch/buffer_memory.h"
#include "common/system/mutex.h"

namespace millrace {

class PinnedMemory final : public BufferMemory, public std::enable_shared_from_this<PinnedMemory> {
 public:
  explicit PinnedMemory(std::shared_ptr<Accelerator> accelerator)
      : accelerator_(std::move(accelerator)) {}

  std::byte* Allocate(std::size_t bytes) override;
  void Free(std::byte* data, std::size_t bytes) override;

  /// Pins memory that may only be read, as long as the result lives. REQUIRES: the memory outlives
  /// the result. Null if the memory cannot be pinned; refusal() then says why.
  std::shared_ptr<const void> Register(std::span<const std::byte> bytes);
  /// Why some memory could not be registered; empty if that never failed.
  std::string refusal() const;

  /// Whether all these bytes are pinned.
  bool Contains(std::span<const std::byte> bytes) const;

 private:
  void Add(const std::byte* data, std::size_t bytes);
  void Remove(const std::byte* data);

  const std::shared_ptr<Accelerator> accelerator_;
  mutable Mutex mutex_;
  std::map<const std::byte*, std::size_t> ranges_ MILLRACE_GUARDED_BY(mutex_);
  std::string refusal_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
