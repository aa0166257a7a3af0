// The recorded orders of shared/golden-orders.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/skip.h"

namespace millrace::test {

/// The recorded cases with a name. Skips the test if there is no shared data.
inline std::vector<nlohmann::json> GoldenOrders(const std::string& name) {
  const std::string path = SharedDirOrSkip() + "/golden-orders/golden.jsonl";
  std::ifstream file(path);
  if (!file) SkipTest("no file " + path);
  std::vector<nlohmann::json> cases;
  for (std::string line; std::getline(file, line);) {
    nlohmann::json one = nlohmann::json::parse(line);
    if (one["case"] == name) cases.push_back(std::move(one));
  }
  return cases;
}

/// The values of a case: a list, or a rule for `n` of them.
inline std::vector<std::int64_t> GoldenValues(const nlohmann::json& params) {
  const nlohmann::json& values = params["values"];
  if (values.is_array()) return values.get<std::vector<std::int64_t>>();
  const std::int64_t divisor = values == "rule8" ? 8 : 1;
  std::vector<std::int64_t> made;
  for (std::int64_t i = 0; i < params["n"].get<std::int64_t>(); ++i) {
    made.push_back((200 + (i * i * 7 + i * 13) % 1501) / divisor);
  }
  return made;
}

}  // namespace millrace::test
