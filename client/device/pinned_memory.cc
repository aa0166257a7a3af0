#include "client/device/pinned_memory.h"

#include <functional>
#include <utility>

namespace millrace {

std::byte* PinnedMemory::Allocate(std::size_t bytes) {
  std::byte* const data = accelerator_->AllocatePinned(bytes);
  if (data != nullptr) Add(data, bytes);
  return data;
}

void PinnedMemory::Free(std::byte* data, std::size_t /*bytes*/) {
  Remove(data);
  accelerator_->FreePinned(data);
}

std::shared_ptr<const void> PinnedMemory::Register(std::span<const std::byte> bytes) {
  const Status registered = accelerator_->RegisterReadOnly(bytes);
  if (!registered.ok()) {
    MutexLock lock(mutex_);
    refusal_ = registered.message();
    return nullptr;
  }
  Add(bytes.data(), bytes.size());
  return std::shared_ptr<const void>(bytes.data(),
                                     [self = shared_from_this(), bytes](const void* /*data*/) {
                                       self->Remove(bytes.data());
                                       self->accelerator_->Unregister(bytes);
                                     });
}

std::string PinnedMemory::refusal() const {
  MutexLock lock(mutex_);
  return refusal_;
}

bool PinnedMemory::Contains(std::span<const std::byte> bytes) const {
  MutexLock lock(mutex_);
  auto it = ranges_.upper_bound(bytes.data());
  if (it == ranges_.begin()) return false;
  --it;
  // The addresses may belong to different blocks. So they are compared with std::less, as the map
  // does.
  return !std::less<>()(it->first + it->second, bytes.data() + bytes.size());
}

void PinnedMemory::Add(const std::byte* data, std::size_t bytes) {
  MutexLock lock(mutex_);
  ranges_[data] = bytes;
}

void PinnedMemory::Remove(const std::byte* data) {
  MutexLock lock(mutex_);
  ranges_.erase(data);
}

}  // namespace millrace
