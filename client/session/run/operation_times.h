// Notes when each phase of a computation ran, for a trace.
//
// Not thread-safe: belongs to the thread that expands a batch.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "common/operations/program.h"
#include "common/system/trace.h"

namespace millrace::client {

/// A phase of a computation that ran. An unset time means that no trace was taken then.
struct OperationTime {
  std::string_view name;  // one of Device::host_phases
  Time began;
  Time ended;
};

class OperationTimes final : public ProgramObserver {
 public:
  /// `names`: the names of the phases (Device::host_phases). All arguments have to outlive the
  /// object.
  OperationTimes(const Tracer& tracer, std::span<const std::string> names)
      : tracer_(tracer), names_(names) {}

  void OnPhase(std::size_t phase) override {
    const Time now = EndLast();
    times_.push_back({names_[phase], now, {}});
  }
  void OnEnd() override { EndLast(); }

  std::vector<OperationTime> Take() { return std::exchange(times_, {}); }

 private:
  Time EndLast() {
    const Time now = tracer_.Begin();
    if (!times_.empty() && times_.back().ended == Time{}) times_.back().ended = now;
    return now;
  }

  const Tracer& tracer_;
  const std::span<const std::string> names_;
  std::vector<OperationTime> times_;
};

}  // namespace millrace::client
