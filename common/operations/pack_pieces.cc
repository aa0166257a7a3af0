#include "common/operations/pack_pieces.h"

#include <limits>
#include <span>
#include <type_traits>

#include <fmt/core.h>

#include "common/tensor/dtype_visit.h"

namespace millrace {
namespace {

/// Calls f with the values of a tensor of integers, as a span of their type.
template <class F>
Status WithIntegers(const TensorView& tensor, F&& f) {
  return VisitValues(tensor.type->dtype, [&](auto zero) -> Status {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      return f(std::span(reinterpret_cast<const T*>(tensor.values.data()),
                         tensor.values.size() / sizeof(T)));
    } else {
      return Internal("pieces: bound to numbers that are no integers");
    }
  });
}

/// Calls `take(row, elements)` for each row, with the sum of its lengths.
template <class Take>
Status ForRows(const TensorView& lengths, const Take& take) {
  return WithIntegers(lengths, [&](auto values) -> Status {
    for (std::uint64_t row = 0; row < lengths.rows; ++row) {
      std::int64_t elements = 0;
      for (std::int64_t i = lengths.splits[row]; i < lengths.splits[row + 1]; ++i) {
        // A number beyond int64 becomes negative.
        const auto length = static_cast<std::int64_t>(values[static_cast<std::size_t>(i)]);
        if (length < 1 || length > kMaxRowElements - elements) {
          return InvalidArgument(
              fmt::format("row {} of the batch has a piece of {} elements after {}; expected 1 to "
                          "{} in all",
                          row, length, elements, kMaxRowElements));
        }
        elements += length;
      }
      MILLRACE_RETURN_IF_ERROR(take(row, elements));
    }
    return OkStatus();
  });
}

}  // namespace

Status RowSplitsOf(const TensorView& lengths, std::vector<std::int64_t>& splits) {
  splits.assign(1, 0);
  return ForRows(lengths, [&](std::uint64_t, std::int64_t elements) {
    splits.push_back(splits.back() + elements);
    return OkStatus();
  });
}

void AppendPieceEnds(const TensorView& lengths, std::vector<std::int64_t>& ends) {
  std::int64_t end = 0;
  ends.push_back(end);
  (void)WithIntegers(lengths, [&](auto values) {
    for (const auto length : values) ends.push_back(end += static_cast<std::int64_t>(length));
    return OkStatus();
  });
}

void AppendPieceNumbers(const TensorView& lengths, std::vector<std::int64_t>& numbers) {
  for (std::uint64_t row = 0; row < lengths.rows; ++row) {
    const std::int64_t pieces = lengths.splits[row + 1] - lengths.splits[row];
    for (std::int64_t number = 1; number <= pieces; ++number) numbers.push_back(number);
  }
}

void AppendIntegers(const TensorView& values, std::vector<std::int64_t>& integers) {
  (void)WithIntegers(values, [&](auto all) {
    for (const auto value : all) integers.push_back(static_cast<std::int64_t>(value));
    return OkStatus();
  });
}

Status PaddedEndsOf(const TensorView& lengths, std::uint32_t padded_to,
                    std::vector<std::int64_t>& ends) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::vector<std::int64_t> rows;
  MILLRACE_RETURN_IF_ERROR(RowSplitsOf(lengths, rows));
  std::vector<std::int64_t> own;
  AppendPieceEnds(lengths, own);
  ends.assign(1, 0);
  for (std::uint64_t row = 0; row < lengths.rows; ++row) {
    const std::int64_t elements = rows[row + 1] - rows[row];
    if (padded_to != 0 && elements > padded_to) {
      return InvalidArgument(fmt::format("row {} of the batch has {} elements, more than {}", row,
                                         elements, padded_to));
    }
    const std::int64_t begin = ends.back();
    const std::int64_t end = begin + (padded_to != 0 ? padded_to : elements);
    if (end > kMost) {
      return InvalidArgument(
          fmt::format("the rows up to row {} have {} elements; expected at most {}, because the "
                      "numbers are int32: take smaller batches, or several parts of each (micro)",
                      row, end, kMost));
    }
    for (std::int64_t i = lengths.splits[row]; i < lengths.splits[row + 1]; ++i) {
      ends.push_back(begin + own[static_cast<std::size_t>(i) + 1] - rows[row]);
    }
    if (ends.back() != end) ends.push_back(end);
  }
  return OkStatus();
}

}  // namespace millrace
