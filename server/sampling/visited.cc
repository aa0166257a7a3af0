#include "server/sampling/visited.h"

namespace millrace {

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
