// Short ways to parse pipelines in tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "server/catalog/product_kinds.h"
#include "server/plan/text/pipeline.h"

namespace millrace::test {

inline Result<Pipeline> ParsePipeline(std::string yaml, std::string variant = "",
                                      std::vector<std::string> overrides = {},
                                      const StageTable& table = ProductStages()) {
  return Pipeline::Parse({std::move(yaml), std::move(variant), std::move(overrides), "p.yaml"},
                         table);
}

/// The smallest pipeline, followed by more lines.
inline std::string Minimal(const std::string& more = "") {
  return "millrace: 1\ndataset: d\nsource: proof_states\nbatch: {size: 8}\n" + more;
}

inline Pipeline MustParse(const std::string& yaml, const std::string& variant = "",
                          const std::vector<std::string>& overrides = {},
                          const StageTable& table = ProductStages()) {
  auto pipeline = ParsePipeline(yaml, variant, overrides, table);
  INFO(yaml);
  INFO(pipeline.status().message());
  REQUIRE(pipeline.ok());
  return *std::move(pipeline);
}

/// The message of the error that parsing gives; fails the test if there is no error.
inline std::string ErrorOf(const std::string& yaml, const std::string& variant = "",
                           const std::vector<std::string>& overrides = {}) {
  const auto pipeline = ParsePipeline(yaml, variant, overrides);
  INFO(yaml);
  REQUIRE_FALSE(pipeline.ok());
  CHECK(pipeline.status().code() == StatusCode::kInvalidArgument);
  return pipeline.status().message();
}

}  // namespace millrace::test
