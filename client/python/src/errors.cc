#include "client/python/src/errors.h"

#include <string>

#include <nanobind/stl/string.h>

#include "client/python/src/calls.h"

namespace nb = nanobind;

namespace millrace::python {

void Raise(const Status& status) {
  if (status.code() == StatusCode::kCancelled && InterpreterEndsElsewhere()) {
    PyErr_SetNone(PyExc_SystemExit);  // ends a thread, and Python does not print it
    throw nb::python_error();
  }
  const nb::object error =
      nb::module_::import_("millrace.errors")
          .attr("make")(std::string(StatusCodeName(status.code())), status.message());
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

Interrupt PythonSignals() {
  return [] {
    const nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
  };
}

void RaisePending() {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
}

}  // namespace millrace::python
