// What `millrace inspect` says about the tensors that a pipeline defines, and about operations.
//
// Pure functions.
#pragma once

#include <string>

#include "common/operations/operation.h"
#include "server/source/tensors_part.h"

namespace millrace::cli {

/// A line for each definition, and one each for output and pads; empty if the pipeline has none of
/// them.
std::string DescribeDefinitions(const TensorsPart& part);

/// The inputs and the parameters of every operation, with defaults and help.
std::string DescribeOperations(const OperationTable& table);

}  // namespace millrace::cli
