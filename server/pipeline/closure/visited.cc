#include "server/pipeline/closure/visited.h"

#include <sys/mman.h>

#include <new>

namespace millrace {

internal::Stamps::Stamps(std::uint64_t count) : bytes_(count * sizeof(std::uint32_t)) {
  void* const data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  madvise(data, bytes_, MADV_HUGEPAGE);  // a hint
  data_ = static_cast<std::uint32_t*>(data);
}

internal::Stamps::~Stamps() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void StampedTable::Grow() {
  moved_.clear();
  for (std::size_t place = 0; place <= mask_; ++place) {
    if (!IsNumbered(place)) continue;
    moved_.push_back(slots_[place]);
    slots_[place].stamp = 0;
  }
  const std::size_t wanted = 2 * (mask_ + 1);
  if (slots_.size() < wanted) slots_.resize(wanted);
  UseSlots(wanted);
  for (const Slot& slot : moved_) slots_[PlaceOf(slot.node)] = slot;
}

}  // namespace millrace
