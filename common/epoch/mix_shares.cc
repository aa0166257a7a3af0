#include "common/epoch/mix_shares.h"

#include <numeric>

namespace millrace {

MixShares::MixShares(std::span<const std::uint64_t> weights)
    : weights_(weights.begin(), weights.end()) {
  std::uint64_t divisor = 0;
  for (const std::uint64_t weight : weights_) divisor = std::gcd(divisor, weight);
  for (std::uint64_t& weight : weights_) {
    weight /= divisor;
    sum_ += weight;
  }
  constexpr std::uint64_t kLeastBlock = 64;
  block_ = sum_ * ((kLeastBlock + sum_ - 1) / sum_);
}

std::vector<std::uint64_t> MixShares::Of(std::uint64_t slots) const {
  __extension__ using Wide = unsigned __int128;
  std::vector<std::uint64_t> counts;
  std::uint64_t rest = sum_;
  for (const std::uint64_t weight : weights_) {
    const auto others = static_cast<std::uint64_t>(Wide{slots} * (rest - weight) / rest);
    counts.push_back(slots - others);
    slots = others;
    rest -= weight;
  }
  return counts;
}

}  // namespace millrace
