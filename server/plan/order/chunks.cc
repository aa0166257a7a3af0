#include "server/plan/order/chunks.h"

#include <algorithm>

namespace millrace {
namespace {

std::uint64_t CountAll(std::span<const std::uint64_t> lengths, const Chunks::Options& options) {
  std::uint64_t count = 0;
  for (const std::uint64_t length : lengths) count += Chunks::CountOf(length, options);
  return count;
}

}  // namespace

std::uint64_t Chunks::CountOf(std::uint64_t length, const Options& options) {
  if (length <= options.size) return 1;
  return 1 + (length - options.size + options.step - 1) / options.step;
}

Chunks::Chunks(std::span<const std::uint64_t> lengths, const Options& options)
    : options_(options), first_(CountAll(lengths, options)) {
  std::uint64_t chunk = 0;
  for (const std::uint64_t length : lengths) {
    first_.Set(chunk);
    chunk += CountOf(length, options);
  }
  first_.Seal();
}

Chunks::Place Chunks::At(std::uint64_t chunk) const {
  const std::uint64_t row = first_.Rank(chunk + 1) - 1;
  return {row, chunk - first_.Select(row)};
}

std::uint64_t Chunks::FirstOf(std::uint64_t row) const {
  return row == first_.count() ? size() : first_.Select(row);
}

Chunks::Extent Chunks::ExtentOf(std::uint64_t number, std::uint64_t length) const {
  const std::uint64_t begin = number * options_.step;
  return {begin, std::min(begin + options_.size, length)};
}

}  // namespace millrace
