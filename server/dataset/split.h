// Splits: which part of the data (0 train, 1 validation, 2 …) a definition or a file belongs to.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace millrace {

enum class SplitMethod : std::uint8_t { kDisabled, kHash, kFilePrefix };

/// Labels that a split can have, from 0.
inline constexpr std::uint32_t kMaxSplitLabels = 256;

struct SplitOptions {
  SplitMethod method = SplitMethod::kDisabled;
  std::vector<std::int64_t> proportions;  // hash: of label 0, 1, …; at least one, none < 0
  std::int64_t seed = 0;                  // hash
  std::vector<std::vector<std::string>> prefixes;  // file_prefix: of label 1, 2, …

  /// Labels that can occur: at least 1.
  std::uint32_t labels() const;
};

/// Label of a definition whose node has `identity`: md5 of "<identity as uint64>#<seed>" as a
/// big-endian integer, modulo 1,000,000,007, over 1,000,000,007, times the sum of the proportions;
/// the first label whose running sum of proportions is not below that.
class HashSplit {
 public:
  /// InvalidArgument for no proportions, a negative one, or a sum of 0.
  static Result<HashSplit> Create(const SplitOptions& options);
  std::uint32_t Label(std::uint64_t identity) const;

 private:
  std::vector<double> running_sums_;
  std::string seed_suffix_;  // "#<seed>"
};

}  // namespace millrace
