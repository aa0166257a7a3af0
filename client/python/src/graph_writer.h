// The compiled part of millrace.write_graph.
#pragma once

#include <nanobind/nanobind.h>

namespace millrace::python {

/// Registers find_array and seal_graph.
void BindGraphWriter(nanobind::module_& module);

}  // namespace millrace::python
