// Finds the request for columns that a plan makes while it is compiled, and with it the source that
// has to be measured.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "server/plan/columns/column_provider.h"

namespace millrace {

/// Ends compiling with Cancelled at the first wanted request; all others go to another provider,
/// which has to outlive it. Not thread-safe.
class RequestCatcher final : public ColumnProvider {
 public:
  RequestCatcher(ColumnProvider& others, std::function<bool(const ColumnRequest&)> wanted)
      : others_(others), wanted_(std::move(wanted)) {}

  Result<MeasuredColumns> Get(const ColumnRequest& request) override {
    if (!wanted_(request)) return others_.Get(request);
    caught_ = request;
    return Cancelled("the source of columns was looked for");
  }
  /// The wanted request; nullopt if it was not made.
  const std::optional<ColumnRequest>& caught() const { return caught_; }

 private:
  ColumnProvider& others_;
  const std::function<bool(const ColumnRequest&)> wanted_;
  std::optional<ColumnRequest> caught_;
};

}  // namespace millrace
