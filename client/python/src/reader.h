// What Python reads batches from: a session, or a plan in this process. Both look the same there.
#pragma once

#include <nanobind/nanobind.h>

#include "client/spec.h"

namespace millrace::python {

/// A spec as a dict of plain values, and a vocabulary.
nanobind::dict SpecDict(const BatchSpec& spec);
nanobind::dict VocabularyDict(const VocabularyTable& vocabulary);

/// Registers example_svg.
void BindDescriptions(nanobind::module_& module);

/// Registers SessionReader and PlanReader.
void BindSessionReader(nanobind::module_& module);
void BindPlanReader(nanobind::module_& module);

}  // namespace millrace::python
