#include "server/kinds/records/walked_groups.h"

namespace millrace {

void WalkedGroups::Add(std::uint64_t group, std::uint32_t known,
                       std::span<const std::uint32_t> ends) {
  Entry& entry = entries_[group & mask_];
  std::uint32_t version = entry.version.load(std::memory_order_relaxed);
  if (version % 2 != 0 ||
      !entry.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire)) {
    return;
  }
  const std::uint32_t count = entry.group.load(std::memory_order_relaxed) == group
                                  ? entry.count.load(std::memory_order_relaxed)
                                  : 0;
  // If the entry has another group by now, the steps before these are no longer there.
  if (known <= count && known + ends.size() > count) {
    entry.group.store(group, std::memory_order_release);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      entry.ends[known + i].store(ends[i], std::memory_order_release);
    }
    entry.count.store(known + static_cast<std::uint32_t>(ends.size()), std::memory_order_release);
  }
  entry.version.store(version + 2, std::memory_order_release);
}

}  // namespace millrace
