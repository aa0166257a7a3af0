// Splits: which part of the data (0 train, 1 validation, 2 …) an example or a file belongs to.
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

/// Number of labels that a split can have, counted from 0.
inline constexpr std::uint32_t kMaxSplitLabels = 256;

struct SplitOptions {
  SplitMethod method = SplitMethod::kDisabled;
  std::vector<std::int64_t> proportions;  // method hash: for label 0, 1, …; at least one, each >= 0
  std::int64_t seed = 0;                  // method hash
  std::vector<std::vector<std::string>> prefixes;  // method file_prefix: for label 1, 2, …

  /// Number of labels that can occur; at least 1.
  std::uint32_t labels() const;
};

/// Finds the label of examples with the value `identity` in the source's split column. Takes the
/// md5 of "<identity as uint64>#<seed>" as a big-endian integer, modulo 1,000,000,007. Divides it
/// by 1,000,000,007 and multiplies it by the sum of the proportions. The label is the first one
/// whose running sum of proportions is not below the result.
class HashSplit {
 public:
  /// InvalidArgument if there are no proportions, one is negative, or their sum is 0.
  static Result<HashSplit> Create(const SplitOptions& options);
  std::uint32_t Label(std::uint64_t identity) const;

 private:
  std::vector<double> running_sums_;
  std::string seed_suffix_;  // "#<seed>"
};

}  // namespace millrace
