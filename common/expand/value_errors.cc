#include "common/expand/value_errors.h"

#include <algorithm>

#include <fmt/core.h>

namespace millrace::internal {

Status ValueDoesNotFit(std::string_view path, std::string_view what, DType index_dtype) {
  const char* const remedy =
      index_dtype == DType::kInt32 ? "; open the session with `index_dtype: int64`" : "";
  return OutOfRange(
      fmt::format("tensor {}: {} does not fit {}{}", path, what, DTypeName(index_dtype), remedy));
}

Status CheckBools(std::string_view path, std::span<const std::byte> values) {
  std::byte bits{0};
  for (const std::byte value : values) bits |= value;
  if (bits <= std::byte{1}) return OkStatus();
  const auto bad =
      std::find_if(values.begin(), values.end(), [](std::byte b) { return b > std::byte{1}; });
  return DataLoss(fmt::format("tensor {}: value {} at element {} of a bool: expected 0 or 1", path,
                              static_cast<int>(*bad), bad - values.begin()));
}

}  // namespace millrace::internal
