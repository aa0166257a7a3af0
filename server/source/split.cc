#include "server/source/split.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/core.h>

namespace millrace {
namespace {

constexpr std::uint64_t kModulus = 1'000'000'007;

/// The md5 of `text`, as a big-endian integer, modulo kModulus.
std::uint64_t Md5Modulo(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int length = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_md5(), nullptr);
  std::uint64_t remainder = 0;
  for (unsigned int i = 0; i < length; ++i) remainder = (remainder * 256 + digest[i]) % kModulus;
  return remainder;
}

}  // namespace

std::uint32_t SplitOptions::labels() const {
  switch (method) {
    case SplitMethod::kHash:
      return static_cast<std::uint32_t>(std::max<std::size_t>(1, proportions.size()));
    case SplitMethod::kFilePrefix:
      return static_cast<std::uint32_t>(prefixes.size() + 1);
    case SplitMethod::kDisabled:
      break;
  }
  return 1;
}

Result<HashSplit> HashSplit::Create(const SplitOptions& options) {
  HashSplit split;
  double sum = 0;
  for (const std::int64_t proportion : options.proportions) {
    if (proportion < 0) {
      return InvalidArgument(
          fmt::format("split.proportions: {} is negative: expected numbers from 0 up", proportion));
    }
    sum += static_cast<double>(proportion);
    split.running_sums_.push_back(sum);
  }
  if (!(sum > 0)) {
    return InvalidArgument(
        "split.proportions: their sum is 0: expected at least one positive number");
  }
  split.seed_suffix_ = fmt::format("#{}", options.seed);
  return split;
}

std::uint32_t HashSplit::Label(std::uint64_t identity) const {
  const std::uint64_t remainder = Md5Modulo(fmt::format("{}{}", identity, seed_suffix_));
  const double at =
      static_cast<double>(remainder) / static_cast<double>(kModulus) * running_sums_.back();
  std::uint32_t label = 0;
  while (label + 1 < running_sums_.size() && running_sums_[label] < at) ++label;
  return label;
}

}  // namespace millrace
