// Makes up a dataset of tokens: documents whose lengths are drawn from a log-normal distribution,
// as those of texts nearly are, in pairs of .bin and .idx or in raw files.
//
// Free functions; thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/source/generate.h"

namespace millrace {

std::vector<Parameter> TokensGenerateParameters();

/// Files part-NNNNN.bin, with part-NNNNN.idx if they are pairs. Each document ends with the last
/// token of the vocabulary, which occurs nowhere else; so raw files have the same documents as
/// pairs if they are read with it as `eos`. Equal options give equal bytes. InvalidArgument if the
/// vocabulary does not fit the type, or the type not the format; errors as GenerateInto.
Result<std::string> GenerateTokens(const std::filesystem::path& dir,
                                   const GenerateRequest& request);

}  // namespace millrace
