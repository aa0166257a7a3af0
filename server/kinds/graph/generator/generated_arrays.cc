#include "server/kinds/graph/generator/generated_arrays.h"

#include <fmt/format.h>

namespace millrace::generator {

Status CheckRange(std::string_view name, std::uint64_t value, std::uint64_t min,
                  std::uint64_t max) {
  if (value >= min && value <= max) return OkStatus();
  return InvalidArgument(fmt::format("{}: expected {} to {}, got {}", name, min, max, value));
}

}  // namespace millrace::generator
