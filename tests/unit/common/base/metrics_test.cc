#include <catch2/catch.hpp>

#include <fstream>
#include <numeric>
#include <regex>
#include <set>
#include <string>

#include "common/base/metrics.h"

namespace millrace {
namespace {

TEST_CASE("the table of metrics is in the order of its names and keeps Prometheus' rules",
          "[metrics]") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < MetricTable().size(); ++i) {
    const MetricSpec& spec = MetricTable()[i];
    INFO(spec.name);
    CHECK(static_cast<std::size_t>(spec.metric) == i);
    CHECK(&SpecOf(spec.metric) == &spec);
    CHECK(std::regex_match(spec.name, std::regex("millrace_[a-z_]+")));
    CHECK(spec.name.ends_with("_total") == (spec.type == MetricType::kCounter));
    CHECK(names.insert(spec.name).second);
    CHECK_FALSE(spec.help.empty());
    for (const std::string& label : spec.labels) {
      CHECK(label != "shard");
      CHECK(label != "peer");
    }
  }
}

TEST_CASE("the page of metrics has an entry for each metric of the table, and no other",
          "[metrics]") {
  std::ifstream page(std::string(MILLRACE_SOURCE_DIR) + "/docs/reference/metrics.md");
  const std::regex entry("^- `(millrace_[a-z_]+)[{`].*");
  std::multiset<std::string> documented;
  std::smatch found;
  for (std::string line; std::getline(page, line);) {
    if (std::regex_match(line, found, entry)) documented.insert(found[1]);
  }
  std::multiset<std::string> names;
  for (const MetricSpec& spec : MetricTable()) names.insert(spec.name);
  CHECK(documented == names);
}

TEST_CASE("a histogram puts each observation into the first bucket that holds it", "[metrics]") {
  Histogram histogram;
  histogram.Observe(0);
  histogram.Observe(Histogram::Bounds()[0]);
  histogram.Observe(Histogram::Bounds()[3] * 1.01);
  histogram.Observe(1e6);
  CHECK(histogram.counts()[0] == 2);
  CHECK(histogram.counts()[4] == 1);
  CHECK(histogram.counts()[Histogram::kBounds] == 1);
  CHECK(histogram.count() == 4);
  CHECK(std::accumulate(histogram.counts().begin(), histogram.counts().end(), 0u) == 4);
  CHECK(histogram.sum() == Approx(1e6 + 0.0001 + 0.0008 * 1.01));
}

}  // namespace
}  // namespace millrace
