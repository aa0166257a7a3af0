// The recorded cases of shared/golden-packs.
#pragma once

#include <catch2/catch.hpp>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/support/skip.h"

namespace millrace::test {

struct GoldenPackCase {
  nlohmann::json params;
  nlohmann::json expected;
};

/// The recorded cases of a name.
inline std::vector<GoldenPackCase> GoldenPackCases(const std::string& name) {
  const std::string path = SharedDirOrSkip() + "/golden-packs/golden.jsonl";
  std::ifstream file(path);
  if (!file) SkipTest("no file " + path);
  std::vector<GoldenPackCase> cases;
  for (std::string line; std::getline(file, line);) {
    nlohmann::json one = nlohmann::json::parse(line);
    if (one["case"] == name) cases.push_back({one["params"], one["expected"]});
  }
  REQUIRE_FALSE(cases.empty());
  return cases;
}

/// A seed of the recorded cases, as YAML has it.
inline std::string SeedText(const nlohmann::json& seed) {
  return seed.is_null() ? "null" : seed.get<std::string>();
}

/// The key `pack` of a recorded case.
inline std::string PackText(const nlohmann::json& params, const std::string& tensor,
                            const std::string& with = "[]") {
  std::string text = fmt::format("pack: {{tensor: {}, with: {}, size: {}, method: {}, seed: {}",
                                 tensor, with, params["size"].get<std::uint64_t>(),
                                 params["method"].get<std::string>(), SeedText(params["seed"]));
  for (const char* key : {"above", "window", "before", "after"}) {
    if (!params.contains(key)) continue;
    const nlohmann::json& value = params[key];
    text +=
        fmt::format(", {}: {}", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text + "}\n";
}

}  // namespace millrace::test
