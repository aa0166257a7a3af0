#include "server/dispatcher/machine/column_facts.h"

#include <bit>
#include <string_view>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/base/protocol_limits.h"

namespace millrace {
namespace {

/// Whether all values of 8 bytes are those of lengths: they are below 2^62, and 1 is added.
bool AreLengths(const std::string& values) {
  for (std::size_t at = 0; at + 8 <= values.size(); at += 8) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(values[at + i])} << (8 * i);
    }
    if (value > std::uint64_t{1} << 62) return false;
  }
  return true;
}

constexpr std::uint32_t kCount = 0;  // types, as in MeasuredColumn
constexpr std::uint32_t kFloat32 = 2;

/// Whether there is a bit for each of `count` values that are no counts, no other bit is set, and
/// each value without its bit is 0.
bool IsPresenceWhole(const v1::MeasuredColumn& column, std::uint64_t count) {
  const auto byte_at = [&](std::uint64_t at) {
    return static_cast<unsigned char>(column.present()[at]);
  };
  if (column.present().size() != (count + 7) / 8) return false;
  if (count % 8 != 0 && byte_at(count / 8) >> (count % 8) != 0) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    if ((byte_at(i / 8) >> (i % 8) & 1) != 0) continue;
    const std::string_view value =
        std::string_view(column.values()).substr(i * column.width(), column.width());
    if (value.find_first_not_of('\0') != std::string_view::npos) return false;
  }
  return true;
}

/// OK if the values of a range are of a type.
Status CheckType(const v1::MeasuredColumn& column, std::uint32_t type, std::uint64_t count) {
  if (column.type() != type) {
    return InvalidArgument(fmt::format("values of type {}: expected {}", column.type(), type));
  }
  if (type == kCount) {
    if (column.width() != 8 || AreLengths(column.values())) return OkStatus();
    return InvalidArgument("a value that is not below 2^62");
  }
  if (type == kFloat32 && column.width() != sizeof(float)) {
    return InvalidArgument(fmt::format("floats of {} bytes each: expected 4", column.width()));
  }
  if (IsPresenceWhole(column, count)) return OkStatus();
  return InvalidArgument("bits that do not say of each value whether it is there");
}

}  // namespace

std::string ColumnSetKey(const v1::ColumnSet& set) {
  std::string text =
      fmt::format("{} {} {}", set.dataset_digest(), set.operations(), set.examples());
  for (const std::string& column : set.columns()) {
    text += fmt::format(" {}:{}", column.size(), column);
  }
  return Xxh3(text).ToHex();
}

Status CheckMeasured(const ColumnFacts& columns, const v1::Measured& measured) {
  const v1::ExampleRun& run = measured.run();
  const std::uint64_t range = run.first() / kMeasuredRange;
  if (run.first() % kMeasuredRange != 0 || range >= columns.ranges.ranges() ||
      run.count() != columns.ranges.SizeOf(range)) {
    return InvalidArgument(
        fmt::format("{} examples from {} of {} are measured: expected a range of {}", run.count(),
                    run.first(), columns.set.examples(), kMeasuredRange));
  }
  if (measured.columns_size() != columns.set.columns_size()) {
    return InvalidArgument(fmt::format("{} columns are measured: expected {}",
                                       measured.columns_size(), columns.set.columns_size()));
  }
  for (int c = 0; c < measured.columns_size(); ++c) {
    const v1::MeasuredColumn& column = measured.columns(c);
    const std::uint32_t width = column.width();
    if (!std::has_single_bit(width) || width > 8 || column.values().size() != width * run.count()) {
      return InvalidArgument(fmt::format(
          "column {} has {} bytes for {} values of {} bytes each: expected 1, 2, 4 or 8 for each",
          columns.set.columns(c), column.values().size(), run.count(), width));
    }
    const std::uint32_t type = c < columns.set.types_size() ? columns.set.types(c) : kCount;
    if (const Status fits = CheckType(column, type, run.count()); !fits.ok()) {
      return InvalidArgument(
          fmt::format("column {} has {}", columns.set.columns(c), fits.message()));
    }
  }
  return OkStatus();
}

}  // namespace millrace
