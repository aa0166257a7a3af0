// The order of the workers of a consumer's list.
//
// Workers of the consumer's own host come first. Otherwise the order follows rendezvous hashing
// (Thaler and Ravishankar, 1998), so that a consumer keeps its workers when others come and go. The
// hash is XXH3-64 of the text `KEY/TERM.N`, with the worker's number; the highest comes first. KEY
// names the session's batches, `FINGERPRINT/WORLD/RANK`: sessions that need the same batches, which
// a worker builds once for all of them, have the same order. A plan with block orders over unmapped
// data has the same order for all ranks, whose windows overlap; its KEY is `FINGERPRINT`.
//
// Free functions and values; thread-compatible.
#pragma once

#include <cstdint>
#include <string>

#include "server/dispatcher/machine/facts.h"

namespace millrace {

struct ListPlace {
  bool own_host = false;
  std::uint64_t hash = 0;
  WorkerId worker;

  /// Whether `a` comes first.
  friend bool operator<(const ListPlace& a, const ListPlace& b);
  friend bool operator==(const ListPlace&, const ListPlace&) = default;
};

class ListOrder {
 public:
  /// REQUIRES: the session has its plan.
  explicit ListOrder(const SessionFacts& session);

  ListPlace Of(const Worker& worker) const;

 private:
  std::string prefix_;  // of the text that is hashed
  std::string host_id_;
};

}  // namespace millrace
