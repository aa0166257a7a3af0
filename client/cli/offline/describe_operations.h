// The text of `millrace inspect` about the tensors that a pipeline defines, and about operations.
//
// Pure functions.
#pragma once

#include <string>

#include "common/operations/operation.h"
#include "server/source/tensors_part.h"

namespace millrace::cli {

/// A line for each definition, one for output and one for pads; empty if the pipeline has no
/// definition, output or pad.
std::string DescribeDefinitions(const TensorsPart& part);

/// The inputs and the parameters of every operation, with defaults and help.
std::string DescribeOperations(const OperationTable& table);

}  // namespace millrace::cli
