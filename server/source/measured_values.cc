#include "server/source/measured_values.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/core.h>

namespace millrace {
namespace {

/// The bits of an integer that make it narrow if most of them are 0: a small negative one has
/// as few as a small positive one, and one more for the sign.
std::uint64_t Magnitude(std::uint64_t integer) {
  const std::uint64_t folded = static_cast<std::int64_t>(integer) < 0 ? ~integer : integer;
  return folded << 1;
}

unsigned WidthFor(std::uint64_t largest) {
  for (const unsigned width : {1u, 2u, 4u}) {
    if (largest >> (8 * width) == 0) return width;
  }
  return 8;
}

unsigned WidthFor(const WideValues& values) {
  if (values.type == MeasuredType::kFloat32) return sizeof(float);
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < values.bits.size(); ++i) {
    if (values.present[i] == 0) continue;
    const std::uint64_t bits = values.bits[i];
    largest = std::max(largest, values.type == MeasuredType::kCount ? bits + 1 : Magnitude(bits));
  }
  return WidthFor(largest);
}

WideValues Counts(std::span<const std::uint64_t> values) {
  WideValues wide = WideValues::None(MeasuredType::kCount, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != MeasuredValues::kNone) wide.Set(i, values[i]);
  }
  return wide;
}

std::size_t PresenceBytes(MeasuredType type, std::uint64_t examples) {
  return type == MeasuredType::kCount ? 0 : (examples + 7) / 8;
}

}  // namespace

WideValues WideValues::None(MeasuredType type, std::uint64_t count) {
  return {type, std::vector<std::uint64_t>(count), std::vector<std::uint8_t>(count)};
}

MeasuredValues::MeasuredValues(std::span<const std::uint64_t> values)
    : MeasuredValues(Counts(values)) {}

MeasuredValues::MeasuredValues(const WideValues& values)
    : type_(values.type), size_(values.bits.size()), width_(WidthFor(values)) {
  const bool counts = type_ == MeasuredType::kCount;
  bytes_.reserve(size_ * width_);
  present_.resize(PresenceBytes(type_, size_));
  for (std::uint64_t id = 0; id < size_; ++id) {
    const bool has = values.present[id] != 0;
    const std::uint64_t stored = has ? values.bits[id] + (counts ? 1 : 0) : 0;
    for (unsigned byte = 0; byte < width_; ++byte) {
      bytes_.push_back(static_cast<std::uint8_t>(stored >> (8 * byte)));
    }
    if (has && !counts) present_[id / 8] |= static_cast<std::uint8_t>(1u << id % 8);
  }
}

std::int64_t MeasuredValues::At(std::uint64_t id) const {
  const std::uint64_t stored = Stored(id);
  switch (type_) {
    case MeasuredType::kCount:
      return stored == 0 ? 0 : static_cast<std::int64_t>(stored - 1);
    case MeasuredType::kInt64: {
      const unsigned above = 64 - 8 * width_;
      return static_cast<std::int64_t>(stored << above) >> above;
    }
    case MeasuredType::kFloat32: {
      const double wide = std::bit_cast<float>(static_cast<std::uint32_t>(stored));
      return std::bit_cast<std::int64_t>(wide);
    }
  }
  return 0;
}

void MeasuredValues::Read(std::uint64_t first, std::span<std::int64_t> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = At(first + i);
}

void MeasuredValues::ReadPresence(std::uint64_t first, std::span<std::int64_t> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = Has(first + i) ? 1 : 0;
}

Status MeasuredValues::CheckPresence() const {
  if (size_ % 8 != 0 && present_.back() >> size_ % 8 != 0) {
    return InvalidArgument(
        fmt::format("a bit says that example {} or a later one has a value, and "
                    "there are {} examples",
                    size_, size_));
  }
  for (std::uint64_t id = 0; id < size_; ++id) {
    if (!Has(id) && Stored(id) != 0) {
      return InvalidArgument(
          fmt::format("example {} has no value by its bit, and the value there is not 0", id));
    }
  }
  return OkStatus();
}

Result<MeasuredValues> MeasuredValues::FromBytes(std::vector<std::uint8_t> bytes, unsigned width,
                                                 MeasuredType type,
                                                 std::vector<std::uint8_t> present) {
  if (type > MeasuredType::kFloat32) {
    return InvalidArgument(
        fmt::format("values of type {}: expected 0, 1 or 2", static_cast<unsigned>(type)));
  }
  if (!std::has_single_bit(width) || width > 8 || bytes.size() % width != 0) {
    return InvalidArgument(
        fmt::format("{} bytes of values of {} bytes each: expected a width of 1, 2, 4 or 8, and a "
                    "multiple of it",
                    bytes.size(), width));
  }
  if (type == MeasuredType::kFloat32 && width != sizeof(float)) {
    return InvalidArgument(fmt::format("floats of {} bytes each: expected 4", width));
  }
  MeasuredValues values;
  values.type_ = type;
  values.size_ = bytes.size() / width;
  values.width_ = width;
  values.bytes_ = std::move(bytes);
  values.present_ = std::move(present);
  if (const std::size_t expected = PresenceBytes(type, values.size_);
      values.present_.size() != expected) {
    return InvalidArgument(
        fmt::format("{} bytes say which of {} examples have values of type {}: expected {}",
                    values.present_.size(), values.size_, static_cast<unsigned>(type), expected));
  }
  if (type != MeasuredType::kCount) {
    MILLRACE_RETURN_IF_ERROR(values.CheckPresence());
    return values;
  }
  for (std::uint64_t id = 0; width == 8 && id < values.size_; ++id) {
    if (values.Stored(id) > std::uint64_t{1} << 62) {
      return InvalidArgument(fmt::format("the value of example {} is not below 2^62", id));
    }
  }
  return values;
}

}  // namespace millrace
