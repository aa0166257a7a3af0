#include "server/kinds/graph/format/array_type.h"

#include <limits>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

}  // namespace

std::optional<std::uint64_t> ArrayType::Bytes() const {
  // An extent of 0 makes the array empty, however large the others are.
  for (const std::uint64_t extent : shape) {
    if (extent == 0) return 0;
  }
  std::uint64_t bytes = DTypeSize(dtype);
  for (const std::uint64_t extent : shape) {
    if (bytes > kMaxBytes / extent) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

std::string ArrayType::ToString() const {
  return fmt::format("{} {}", DTypeName(dtype), ShapeText(shape));
}

Status CheckShape(const ArrayType& type) {
  if (type.shape.empty()) return InvalidArgument("is a scalar, expected at least one dimension");
  if (type.shape.size() > kMaxArrayDimensions) {
    return InvalidArgument(fmt::format("has {} dimensions, expected at most {}", type.shape.size(),
                                       kMaxArrayDimensions));
  }
  for (const std::uint64_t extent : type.shape) {
    if (extent > kMaxArrayExtent) {
      return InvalidArgument(fmt::format("has the shape {}, expected extents of at most {}",
                                         ShapeText(type.shape), kMaxArrayExtent));
    }
  }
  // A row counts too, because the shape of an empty array may have any rows.
  ArrayType row = type;
  if (row.shape[0] == 0) row.shape[0] = 1;
  if (!row.Bytes()) {
    return InvalidArgument(
        fmt::format("has the shape {}, expected fewer than 2^63 bytes", ShapeText(type.shape)));
  }
  return OkStatus();
}

std::string ShapeText(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace millrace
