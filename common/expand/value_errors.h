// Errors of values in a batch, in the same words for all ways of delivery.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "common/base/dtype.h"
#include "common/base/result.h"

namespace millrace::internal {

/// OutOfRange for a number of tensor `path` that `index_dtype`, int32 or int64, cannot hold.
Status ValueDoesNotFit(std::string_view path, std::string_view what, DType index_dtype);

/// DataLoss if a value of tensor `path`, which has bools, is neither 0 nor 1.
Status CheckBools(std::string_view path, std::span<const std::byte> values);

}  // namespace millrace::internal
