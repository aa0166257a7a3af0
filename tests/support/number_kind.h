// A kind of dataset that the product does not have: a folder with a file `numbers.txt`, which has
// one number on each line. It shows what a new kind needs: one file, and one line where the kinds
// are listed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "server/dataset/dataset_kind.h"

namespace millrace::test {

/// Its source is `numbers`: one example a line, with the tensors `value` and `example_id`, and the
/// column `value`, by which hash splits go. Pipelines over it may have `parity: {odd: true}`.
std::shared_ptr<const DatasetKind> MakeNumberKind();

/// Writes a dataset of this kind: the numbers from 0 to `count` - 1.
void WriteNumbers(const std::filesystem::path& dir, int count);
/// Writes a dataset of these numbers.
void WriteNumbers(const std::filesystem::path& dir, const std::vector<std::int64_t>& numbers);

}  // namespace millrace::test
