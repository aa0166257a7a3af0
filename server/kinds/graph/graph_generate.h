// `millrace generate --kind graph`.
//
// Free functions; thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/source/generate.h"

namespace millrace {

std::vector<Parameter> GraphGenerateParameters();
Result<std::string> GenerateGraphDataset(const std::filesystem::path& dir,
                                         const GenerateRequest& request);

}  // namespace millrace
