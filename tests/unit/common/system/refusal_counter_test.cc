#include <catch2/catch.hpp>

#include "common/system/refusal_counter.h"

namespace millrace {
namespace {

TEST_CASE("only refusals are counted as such, by method and code, from 0 on", "[metrics]") {
  RefusalCounter counter({"Attach"});
  counter.Count("Attach", OkStatus());
  counter.Count("Attach", Cancelled("a newer stream"));
  counter.Count("Attach", Aborted("taken over"));
  counter.Count("Attach", Unavailable("silent"));
  counter.Count("Attach", InvalidArgument("rank 4 of 2"));
  counter.Count("Work", DataLoss("bad"));
  MetricSet metrics;
  counter.AddTo(metrics);
  const auto& values = metrics.values(Metric::kRefusedRequests);
  CHECK(values.at({"Attach", "invalid_argument"}) == 1);
  CHECK(values.at({"Attach", "resource_exhausted"}) == 0);
  CHECK(values.at({"Work", "data_loss"}) == 1);
  for (const auto& [labels, value] : values) {
    CHECK(labels[1] != "aborted");
    CHECK(labels[1] != "unavailable");
  }
}

}  // namespace
}  // namespace millrace
