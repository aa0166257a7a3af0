// A stage for tests, which keeps every k-th example. It shows what a new stage needs: one file, and
// one line where the table is put together.
#pragma once

#include "server/catalog/product_kinds.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace::test {

inline StageType TestEveryStage() {
  StageType stage;
  stage.name = "test_every";
  stage.place = StagePlace::kPlan;
  stage.help = "keeps the examples whose number `keep` divides";
  stage.optional = true;
  stage.parameters = {{
      .name = "keep",
      .types = {ParamType::kInt},
      .default_value = std::int64_t{2},
      .help = "one of how many",
      .min = 1,
  }};
  stage.compile = [](const Params& params, PlanParts& parts) {
    const auto keep = static_cast<std::uint64_t>(params.GetInt("keep"));
    parts.Edit<FilterPart>().predicates.push_back(
        [keep](const Source&, ExampleId example) { return example.value() % keep == 0; });
    return OkStatus();
  };
  return stage;
}

/// The product's table, with this stage before shuffle.
inline StageTable TableWithTestEvery() { return ProductStages().With(TestEveryStage(), "shuffle"); }

}  // namespace millrace::test
