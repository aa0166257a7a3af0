// Writing TFRecord files from Python (millrace/_import).
#pragma once

#include <nanobind/nanobind.h>

namespace millrace::python {

void BindRecordFile(nanobind::module_& module);

}  // namespace millrace::python
