#include "server/plan/cache/disk_index.h"

#include <utility>

namespace millrace {
namespace {

constexpr int kLengthBits = 20;
constexpr int kPlaceBits = 24;
/// An entry that was removed: it is not empty, and its segment does not exist.
constexpr std::uint64_t kRemoved = 1;

std::uint64_t PackPlace(const RecordPlace& place) {
  return std::uint64_t{place.segment} << (kPlaceBits + kLengthBits) |
         std::uint64_t{place.place} << kLengthBits | place.length;
}

RecordPlace UnpackPlace(std::uint64_t packed) {
  return {static_cast<std::uint32_t>(packed >> (kPlaceBits + kLengthBits)),
          static_cast<std::uint32_t>(packed >> kLengthBits) & ((1u << kPlaceBits) - 1),
          static_cast<std::uint32_t>(packed) & ((1u << kLengthBits) - 1)};
}

bool IsLive(std::uint64_t packed, const LiveSegments& live) {
  const std::uint32_t segment = UnpackPlace(packed).segment;
  return segment != 0 && (segment >= live.size() || live[segment]);
}

}  // namespace

std::size_t DiskIndex::Begin(std::uint64_t tag) const {
  std::uint64_t x = tag ^ seed_;  // the finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return static_cast<std::size_t>(x ^ (x >> 31)) & (slots_.size() - 1);
}

std::size_t DiskIndex::Probe(std::uint64_t tag) const {
  std::size_t at = Begin(tag);
  while (slots_[at].place != 0 && slots_[at].tag != tag) at = (at + 1) & (slots_.size() - 1);
  return at;
}

std::optional<RecordPlace> DiskIndex::Find(const Digest128& key) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint64_t packed = slots_[Probe(key.low)].place;
  if (packed == 0 || packed == kRemoved) return std::nullopt;
  return UnpackPlace(packed);
}

bool DiskIndex::Insert(const Digest128& key, const RecordPlace& place) {
  if (slots_.empty()) return false;
  Slot& slot = slots_[Probe(key.low)];
  if (slot.place == 0) {
    if (used_ >= slots_.size() / 8 * 7) return false;
    ++used_;
  }
  slot = {key.low, PackPlace(place)};
  return true;
}

void DiskIndex::Erase(const Digest128& key, const RecordPlace& place) {
  if (slots_.empty()) return;
  Slot& slot = slots_[Probe(key.low)];
  if (slot.place == PackPlace(place)) slot.place = kRemoved;
}

std::size_t DiskIndex::LiveEntries(const LiveSegments& live) const {
  std::size_t count = 0;
  for (const Slot& slot : slots_) count += slot.place != 0 && IsLive(slot.place, live);
  return count;
}

void DiskIndex::Rebuild(std::size_t slots, const LiveSegments& live) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.place == 0 || !IsLive(slot.place, live)) continue;
    slots_[Probe(slot.tag)] = slot;
    ++used_;
  }
}

}  // namespace millrace
