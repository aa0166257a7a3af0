// millrace._core: the compiled part of the Python package. Users import `millrace`.

#include <nanobind/nanobind.h>

#include "client/python/src/batch.h"
#include "client/python/src/calls.h"
#include "client/python/src/graph_writer.h"
#include "client/python/src/reader.h"
#include "client/python/src/record_file.h"

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // daemon threads never free what they hold
  module.doc() = "The compiled part of millrace.";
  module.attr("__version__") = MILLRACE_VERSION;
  millrace::python::BindCalls();
  millrace::python::BindBatch(module);
  millrace::python::BindDescriptions(module);
  millrace::python::BindGraphWriter(module);
  millrace::python::BindOptions(module);
  millrace::python::BindPlaces(module);
  millrace::python::BindReader(module);
  millrace::python::BindRecordFile(module);
  millrace::python::BindSessionReader(module);
  millrace::python::BindPlanReader(module);
}
