// The values of an example, for people.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "common/batch/batch.h"

namespace millrace::cli {

/// A line for each tensor with a row of its own for the example at `row`: its path, its type, how
/// many elements it has if that varies, and the first of its values. Bytes that are text are shown
/// as text. Tensors of a graph that several examples share are left out.
std::string DescribeValues(const PackedBatch& batch, std::size_t row);

}  // namespace millrace::cli
