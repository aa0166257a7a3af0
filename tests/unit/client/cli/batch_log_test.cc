// Tests of a delivery log's lines, as `millrace consume --log` writes them.
#include "client/cli/consume/batch_log.h"

#include <catch2/catch.hpp>

namespace millrace::cli {
namespace {

using Catch::Contains;

TEST_CASE("a log names a reason as the session's spec does, or by its number", "[batch_log]") {
  const StepArithmetic steps =
      StepArithmetic::Create({.examples = 10, .size = 5, .world_size = 1}).value();
  BatchInfo info;
  info.dropped = {{ExampleId(3), DropReason::kTooLarge},
                  {ExampleId(4), DropReason{5}},
                  {ExampleId(6), DropReason{17}}};
  const DropReasonNames names({"", "", "", "", "too_old"});
  CHECK_THAT(BatchLogLine(steps, {0, 5}, 0, {}, info, names),
             Contains(R"("dropped":[[3,"too_large"],[4,"too_old"],[6,"reason 17"]])"));
}

}  // namespace
}  // namespace millrace::cli
