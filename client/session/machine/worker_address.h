// The addresses of a worker, independent of their message on the wire.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/transport/convert/places.h"
#include "millrace/v1/common.pb.h"

namespace millrace::client {

/// The addresses of a worker's batch service.
struct WorkerAddress {
  WorkerId id;
  std::string address;  // host:port
  std::string host_id;
  std::string unix_socket;  // for consumers on the worker's host; empty: no socket
};

// Without these, the function below would hide the ones in namespace millrace.
using millrace::FromProto;
using millrace::ToProto;

inline WorkerAddress FromProto(const v1::WorkerRef& worker) {
  return {WorkerId(FromProto(worker.id())), worker.address(), worker.host_id(),
          worker.unix_socket()};
}

}  // namespace millrace::client
