// The numbers that nodes have in a graph: a hash table whose buckets have four slots each. A bucket
// is in one line of memory and is read as a whole, by vectors, so that no branch depends on the
// slot of a node; when it is full, the next one is tried. The table has room for twice the nodes of
// the graph, so that few buckets are full; and not for all nodes of the data, so that its lines
// stay in the processor's nearer caches while entries of rows pass through them.
//
// Not thread-safe: a table belongs to a thread. It allocates nothing once it has seen the largest
// graph.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/ask_for_line.h"
#include "server/sampling/moving_base.h"
#include "server/sampling/number_bucket.h"

namespace millrace {

/// Node: an unsigned integer of 32 or 64 bits.
template <class Node>
class NumberTable {
  using Bucket = NumberBucket<Node>;

 public:
  /// `most_nodes`: of a graph; at most 2^30.
  explicit NumberTable(std::uint32_t most_nodes) : buckets_(kFewestBuckets), moving_(most_nodes) {}

  /// Forgets all nodes, and expects about as many again. REQUIRES: their numbers are below `used`.
  void Forget(std::uint32_t used) {
    if (moving_.Advance(used)) std::fill(buckets_.begin(), buckets_.end(), Bucket{});
    UseBuckets(std::min(buckets_.size(), BucketsFor(used)));
  }

  /// Has to be called before nodes are added. `nodes`: the most that the graph has then.
  void Reserve(std::size_t nodes) {
    if (BucketsFor(nodes) > mask_ + 1) Grow(BucketsFor(nodes));
  }

  /// The table in the form that a loop uses. It is small and lives in the loop's own frame, so that
  /// its parts can stay in registers. Ends when the table changes in another way.
  class Entered {
   public:
    explicit Entered(NumberTable* table)
        : buckets_(table->buckets_.data()),
          mask_(table->mask_),
          shift_(table->shift_),
          base_(Stamp(table->moving_.base())) {}

    /// Gives a node without a number the number `next`. Returns whether it had no number, and sets
    /// *number to the node's number.
    bool Add(Node node, std::uint32_t next, std::uint32_t* number) {
      const Place at = PlaceOf(node);
      std::int32_t& stamp = at.bucket->stamps[at.slot];
      const bool is_new = stamp < base_;
      // The stamp of an empty slot is below the base. The difference then wraps round to more than
      // `next` can be, so the minimum is `next`.
      const std::uint32_t given = std::min(NumberOf(stamp), next);
      at.bucket->nodes[at.slot] = node;
      stamp = static_cast<std::int32_t>(static_cast<std::uint32_t>(base_) + given);
      *number = given;
      return is_new;
    }
    /// Sets *number to the node's number. False if it has no number.
    bool Find(Node node, std::uint32_t* number) const {
      const Place at = PlaceOf(node);
      const std::int32_t stamp = at.bucket->stamps[at.slot];
      *number = NumberOf(stamp);
      return stamp >= base_;
    }
    /// Prefetches the data of Add and Find of a node.
    void Ask(Node node) const { AskForNearLine(buckets_ + Home(node)); }

   private:
    struct Place {
      Bucket* bucket;
      int slot;
    };

    /// The slot of the node, or where it would be put. Slots of a bucket are filled in turn, so
    /// that the node's slot is before the empty ones.
    Place PlaceOf(Node node) const {
      std::size_t place = Home(node);
      std::uint32_t found = buckets_[place].Find(node, base_);
      while (found == 0) [[unlikely]] {
          place = (place + 1) & mask_;
          found = buckets_[place].Find(node, base_);
        }
      return {buckets_ + place, std::countr_zero(found)};
    }
    std::size_t Home(Node node) const {
      return static_cast<std::size_t>(node * std::uint64_t{0x9E3779B97F4A7C15u} >> shift_);
    }
    std::uint32_t NumberOf(std::int32_t stamp) const {
      return static_cast<std::uint32_t>(stamp) - static_cast<std::uint32_t>(base_);
    }

    Bucket* buckets_;
    std::size_t mask_;
    int shift_;
    std::int32_t base_;
  };
  Entered Enter() { return Entered(this); }

 private:
  struct Moved {
    Node node;
    std::uint32_t number;
  };
  static constexpr std::size_t kFewestBuckets = 256;

  /// A stamp as buckets have it: vectors compare signed numbers.
  static std::int32_t Stamp(std::uint32_t stamp) {
    return static_cast<std::int32_t>(stamp + (std::uint32_t{1} << 31));
  }
  static std::size_t BucketsFor(std::size_t nodes) {
    return std::bit_ceil(std::max(kFewestBuckets, 2 * nodes / Bucket::kSlots));
  }
  void UseBuckets(std::size_t buckets) {
    mask_ = buckets - 1;
    shift_ = 64 - std::countr_zero(buckets);
  }
  void Grow(std::size_t buckets) {
    const std::int32_t base = Stamp(moving_.base());
    moved_.clear();
    for (Bucket& bucket : std::span(buckets_).first(mask_ + 1)) {
      for (int slot = 0; slot < Bucket::kSlots && bucket.stamps[slot] >= base; ++slot) {
        moved_.push_back({bucket.nodes[slot], static_cast<std::uint32_t>(bucket.stamps[slot]) -
                                                  static_cast<std::uint32_t>(base)});
      }
      bucket = {};
    }
    if (buckets_.size() < buckets) buckets_.resize(buckets);
    UseBuckets(buckets);
    Entered grown = Enter();
    std::uint32_t number;
    for (const Moved& moved : moved_) grown.Add(moved.node, moved.number, &number);
  }

  std::vector<Bucket> buckets_;  // the first mask_ + 1 of them are in use
  std::vector<Moved> moved_;     // scratch of Grow
  std::size_t mask_ = kFewestBuckets - 1;
  int shift_ = 64 - std::countr_zero(kFewestBuckets);
  MovingBase moving_;
};

}  // namespace millrace
