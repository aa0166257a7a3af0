#include "server/dispatcher/machine/column_facts.h"

#include <bit>

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
    if (width == 8 && !AreLengths(column.values())) {
      return InvalidArgument(
          fmt::format("column {} has a value that is not below 2^62", columns.set.columns(c)));
    }
  }
  return OkStatus();
}

}  // namespace millrace
