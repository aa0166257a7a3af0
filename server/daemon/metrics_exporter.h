// Offers metrics over HTTP in the format of Prometheus: GET /metrics on a port of its own.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/metrics.h"
#include "common/base/result.h"

namespace millrace {

class MetricsExporter {
 public:
  struct Roles {
    bool dispatcher = false;
    bool worker = false;
  };
  /// Fills in the present values. Called once per request, from any thread.
  using Collect = std::function<void(MetricSet&)>;

  /// Starts to listen. Shows every metric of the table that `roles` have, with type and help, even
  /// if it has no value yet. AlreadyExists if the port is in use. InvalidArgument for an address
  /// that this machine does not have.
  static Result<std::unique_ptr<MetricsExporter>> Start(const std::string& listen, Roles roles,
                                                        Collect collect);
  /// Takes up to 2 s, because the HTTP server checks only that often whether it has to end.
  virtual ~MetricsExporter() = default;

  virtual int port() const = 0;
};

}  // namespace millrace
