#include "common/operations/join_kernels.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

namespace millrace {

Status JoinUnits::Splits(std::span<const TensorView> inputs,
                         std::vector<std::int64_t>& splits) const {
  const std::span<const std::int64_t> first = inputs.front().splits;
  for (const TensorView& input : inputs) {
    const auto differs =
        std::mismatch(first.begin(), first.end(), input.splits.begin(), input.splits.end());
    if (differs.first == first.end()) continue;
    return InvalidArgument(fmt::format("{}: the inputs have different lengths from row {} on",
                                       name_, differs.first - first.begin() - 1));
  }
  splits.assign(first.begin(), first.end());
  return OkStatus();
}

Status JoinUnits::Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
                      std::span<std::byte>, std::span<std::byte> out) const {
  std::uint64_t together = 0;
  for (const std::uint64_t bytes : piece_bytes_) together += bytes;
  const std::uint64_t pieces = inputs.front().units() * pieces_;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::uint64_t bytes = piece_bytes_[i];
    const std::byte* from = inputs[i].values.data();
    std::byte* to = out.data() + at;
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      std::memcpy(to, from, bytes);
      from += bytes;
      to += together;
    }
    at += bytes;
  }
  return OkStatus();
}

Status JoinRows::Splits(std::span<const TensorView> inputs,
                        std::vector<std::int64_t>& splits) const {
  splits.assign(inputs.front().rows + 1, 0);
  for (const TensorView& input : inputs) {
    for (std::size_t row = 0; row < splits.size(); ++row) splits[row] += input.splits[row];
  }
  return OkStatus();
}

Status JoinRows::Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
                     std::span<std::byte>, std::span<std::byte> out) const {
  const auto unit = static_cast<std::int64_t>(inputs.front().type->UnitBytes());
  std::byte* to = out.data();
  for (std::uint64_t row = 0; row < inputs.front().rows; ++row) {
    for (const TensorView& input : inputs) {
      const auto bytes =
          static_cast<std::size_t>((input.splits[row + 1] - input.splits[row]) * unit);
      if (bytes == 0) continue;
      std::memcpy(to, input.values.data() + input.splits[row] * unit, bytes);
      to += bytes;
    }
  }
  return OkStatus();
}

}  // namespace millrace
