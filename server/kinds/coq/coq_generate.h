// Makes up Coq datasets for `millrace generate`.
//
// Free functions; thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/source/generate.h"

namespace millrace {

std::vector<Parameter> CoqGenerateParameters();

/// Writes a dataset into a folder, and returns a report for people. Errors of GenerateDataset.
Result<std::string> GenerateCoq(const std::filesystem::path& dir, const GenerateRequest& request);

}  // namespace millrace
