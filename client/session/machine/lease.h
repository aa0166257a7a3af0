// Leases as a consumer holds them, apart from their messages.
//
// Thread-compatible value types.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/epoch/position.h"
#include "common/transport/convert/places.h"
#include "millrace/v1/common.pb.h"

namespace millrace::client {

/// A run of steps of one rank: batch k lies at position at.example + k * stride and holds the
/// places [first_example + k * stride, ... + examples) of the epoch's order.
struct Shard {
  Position at;
  std::uint64_t stride = 0;
  std::uint64_t first_example = 0;
  std::uint32_t examples = 0;
  std::uint32_t batches = 0;
};

/// Where a worker's batch service is.
struct WorkerAddress {
  Number id;
  std::string address;  // host:port
  std::string host_id;
  std::string unix_socket;  // for consumers of the worker's host; empty: none
};

struct Lease {
  Number id;
  Shard shard;
  WorkerAddress worker;
  bool copy = false;
};

// Beside those below, which would hide them.
using millrace::FromProto;
using millrace::ToProto;

void ToProto(const Shard& shard, v1::Shard* to);
void ToProto(const Lease& lease, v1::Lease* to);
/// What the message says; whether it makes sense for a session is RankSteps::Check's to tell.
Lease FromProto(const v1::Lease& lease);
WorkerAddress FromProto(const v1::WorkerRef& worker);

}  // namespace millrace::client
