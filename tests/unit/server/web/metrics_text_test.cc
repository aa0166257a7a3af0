#include "server/web/metrics_text.h"

#include <catch2/catch.hpp>

namespace millrace::test {
namespace {

TEST_CASE("the text has values, help and types of the metrics of its roles", "[metrics]") {
  MetricSet metrics;
  metrics.Add(Metric::kBuildInfo, {"1.2.3"}, 1);
  metrics.Add(Metric::kFileVerifyFailures, {"changed"}, 7);
  const std::string page = MetricsText({.dispatcher = false, .worker = true}, metrics);
  std::size_t of_worker = 0;
  for (const MetricSpec& spec : MetricTable()) {
    CAPTURE(spec.name);
    CHECK((page.find("# HELP " + std::string(spec.name) + " ") != std::string::npos) ==
          spec.of_worker());
    of_worker += spec.of_worker() ? 1 : 0;
  }
  CHECK(of_worker > 0);
  CHECK(of_worker < MetricTable().size());
  CHECK(page.find("{version=\"1.2.3\"} 1") != std::string::npos);
  CHECK(page.find("=\"changed\"} 7") != std::string::npos);
}

}  // namespace
}  // namespace millrace::test
