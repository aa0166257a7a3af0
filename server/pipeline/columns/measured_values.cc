#include "server/pipeline/columns/measured_values.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/core.h>

namespace millrace {
namespace {

unsigned WidthFor(std::uint64_t largest) {
  for (const unsigned width : {1u, 2u, 4u}) {
    if (largest >> (8 * width) == 0) return width;
  }
  return 8;
}

}  // namespace

MeasuredValues::MeasuredValues(std::span<const std::uint64_t> values) : size_(values.size()) {
  std::uint64_t largest = 0;
  for (const std::uint64_t value : values) largest = std::max(largest, value + 1);
  width_ = WidthFor(largest);
  bytes_.reserve(values.size() * width_);
  for (const std::uint64_t value : values) {
    const std::uint64_t stored = value + 1;  // 0 for kNone
    for (unsigned byte = 0; byte < width_; ++byte) {
      bytes_.push_back(static_cast<std::uint8_t>(stored >> (8 * byte)));
    }
  }
}

void MeasuredValues::Read(std::uint64_t first, std::span<std::int64_t> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = At(first + i);
}

Result<MeasuredValues> MeasuredValues::FromBytes(std::vector<std::uint8_t> bytes, unsigned width) {
  if (!std::has_single_bit(width) || width > 8 || bytes.size() % width != 0) {
    return InvalidArgument(
        fmt::format("{} bytes of values of {} bytes each: expected a width of 1, 2, 4 or 8, and a "
                    "multiple of it",
                    bytes.size(), width));
  }
  MeasuredValues values;
  values.size_ = bytes.size() / width;
  values.width_ = width;
  values.bytes_ = std::move(bytes);
  for (std::uint64_t id = 0; width == 8 && id < values.size_; ++id) {
    if (values.Stored(id) > std::uint64_t{1} << 62) {
      return InvalidArgument(fmt::format("the value of example {} is not below 2^62", id));
    }
  }
  return values;
}

}  // namespace millrace
