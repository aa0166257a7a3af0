// A dispatcher behind gRPC, with the plans of the made-up fleet, in a process of its own.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "tests/bench/child.h"

namespace millrace::bench {

class DispatcherProcess {
 public:
  /// Starts it. This forks: call it before there are threads.
  static Result<std::unique_ptr<DispatcherProcess>> Start();

  int port() const { return port_; }
  std::string address() const;
  double CpuSeconds() const;
  double AnonymousBytes() const;

 private:
  DispatcherProcess();

  Child child_;
  int port_ = 0;
};

}  // namespace millrace::bench
