// Leases as a consumer holds them, independent of their messages on the wire.
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

/// The addresses of a worker's batch service.
struct WorkerAddress {
  Number id;
  std::string address;  // host:port
  std::string host_id;
  std::string unix_socket;  // for consumers on the worker's host; empty: none
};

struct Lease {
  Number id;
  Shard shard;
  WorkerAddress worker;
  bool copy = false;
};

// Without these, the functions below would hide the ones in namespace millrace.
using millrace::FromProto;
using millrace::ToProto;

void ToProto(const Shard& shard, v1::Shard* to);
void ToProto(const Lease& lease, v1::Lease* to);
/// Converts the message without any check. RankSteps::Check tells whether a lease fits a session.
Lease FromProto(const v1::Lease& lease);
WorkerAddress FromProto(const v1::WorkerRef& worker);

}  // namespace millrace::client
