// Makes up a dataset of records, like a recording of games: a board of bits and a score in each
// record, and a sequence of floats of any length.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/source/generate.h"

namespace millrace {

/// Bytes of the feature `d` of every record.
inline constexpr std::size_t kBoardBytes = 194;

std::vector<Parameter> RecordsGenerateParameters();

/// Files part-NNNNN-of-NNNNN.tfrecord with the features `d` (kBoardBytes bytes), `s` (int64) and,
/// if there are floats, `x` (float32s). Equal numbers give equal bytes. Errors as GenerateInto.
Result<std::string> GenerateRecords(const std::filesystem::path& dir,
                                    const GenerateRequest& request);

}  // namespace millrace
