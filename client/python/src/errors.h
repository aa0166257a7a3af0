// Statuses as Python exceptions (millrace/errors.py), and waits that Ctrl-C ends.
#pragma once

#include <utility>

#include <nanobind/nanobind.h>

#include "client/session.h"
#include "common/base/result.h"

namespace millrace::python {

/// Raises the exception for the status. REQUIRES: it is not ok, and the GIL is held.
[[noreturn]] void Raise(const Status& status);

inline void RaiseUnlessOk(const Status& status) {
  if (!status.ok()) Raise(status);
}

template <class T>
T ValueOrRaise(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return std::move(result).value();
}

/// An interrupt that runs Python's signal handlers; only the main thread runs any. It returns true
/// if one of them raised. The interrupted caller then calls RaisePending with the GIL held.
Interrupt PythonSignals();

/// Raises the exception of a signal handler if there is one. REQUIRES: the GIL is held.
void RaisePending();

}  // namespace millrace::python
