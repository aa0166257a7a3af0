// A kind of dataset that the product does not have: a folder with a file `numbers.txt`, which has
// one number on each line. It shows what a new kind needs: one file, and one line where the kinds
// are listed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "server/source/dataset_kind.h"

namespace millrace::test {

/// Its source is `numbers`: one example a line, with the tensors `value` and `example_id`, and the
/// column `value`, by which hash splits go. Pipelines over it may have `parity: {odd: true}`. The
/// source `runs` has, for a number n, also the ragged tensors `run`, n numbers RunElement(n, i),
/// and `run/minus`, the same negated and with the same splits. It drops numbers above kLongestRun.
std::shared_ptr<const DatasetKind> MakeNumberKind();

inline constexpr std::int64_t kLongestRun = 900;
constexpr std::int64_t RunElement(std::int64_t number, std::int64_t i) {
  return (number * 1000 + i * 7) % 30'011;
}

/// Writes a dataset of this kind: the numbers from 0 to `count` - 1.
void WriteNumbers(const std::filesystem::path& dir, int count);
/// Writes a dataset of these numbers.
void WriteNumbers(const std::filesystem::path& dir, const std::vector<std::int64_t>& numbers);

}  // namespace millrace::test
