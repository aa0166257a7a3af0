// Metrics over HTTP, as Prometheus reads them: GET /metrics on a port of its own.
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
  /// Fills in the values of the moment; called once a request, from any thread.
  using Collect = std::function<void(MetricSet&)>;

  /// Listens. Shows every metric of the table that `roles` has, with type and help, also where
  /// there is no value yet. AlreadyExists for a busy port, InvalidArgument for an address that is
  /// none of this machine's.
  static Result<std::unique_ptr<MetricsExporter>> Start(const std::string& listen, Roles roles,
                                                        Collect collect);
  /// Takes up to 2 s: the HTTP server looks that rarely whether it is to end.
  virtual ~MetricsExporter() = default;

  virtual int port() const = 0;
};

}  // namespace millrace
