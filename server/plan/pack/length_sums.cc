#include "server/plan/pack/length_sums.h"

#include <fmt/core.h>

#include "server/plan/pack/pack_options.h"

namespace millrace {

std::uint64_t AddLengths(std::span<const std::uint64_t> lengths, std::uint64_t before) {
  std::uint64_t sum = before;
  for (const std::uint64_t length : lengths) {
    if (length > kMaxPackElements - sum) return kMaxPackElements + 1;
    sum += length;
  }
  return sum;
}

Status TooManyElements(std::uint64_t documents) {
  return InvalidArgument(fmt::format(
      "the {} documents to pack have more than {} (2^63) elements together: expected at most so "
      "many; select fewer documents",
      documents, kMaxPackElements));
}

void AddConcat(std::span<const std::uint64_t> lengths, std::uint64_t size, std::uint64_t at,
               PackTotals& totals) {
  std::uint64_t room = size - at % size;  // of the row that the next element lies in
  for (const std::uint64_t length : lengths) {
    if (length < room) {
      totals.pieces += length != 0 ? 1 : 0;
      totals.empty += length == 0 ? 1 : 0;
      room -= length;
    } else {
      const std::uint64_t beyond = length - room;
      totals.pieces += 1 + beyond / size + (beyond % size != 0 ? 1 : 0);
      room = size - beyond % size;
    }
    totals.elements += length;
  }
}

}  // namespace millrace
