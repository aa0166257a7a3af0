#include "server/plugin/plugin_probe.h"

#include <catch2/catch.hpp>

namespace millrace {
namespace {

using Ids = std::vector<std::uint64_t>;

ProbedExample Built(std::uint64_t id, std::vector<Digest128> tensors) {
  return {.id = id, .outcome = RowOutcome::kDone, .tensors = std::move(tensors)};
}

const std::vector<PluginTensor> kTensors = {{"x", {}}, {"y", {}}};

}  // namespace

TEST_CASE("the first, the middle and the last example are probed, each once", "[plugin][probe]") {
  CHECK(ExamplesToProbe(0).empty());
  CHECK(ExamplesToProbe(1) == Ids{0});
  CHECK(ExamplesToProbe(2) == Ids{0, 1});
  CHECK(ExamplesToProbe(3) == Ids{0, 1, 2});
  CHECK(ExamplesToProbe(10) == Ids{0, 5, 9});
}

TEST_CASE("examples to check are spread from the first to the last", "[plugin][probe]") {
  CHECK(SpreadExamples(0, 5).empty());
  CHECK(SpreadExamples(7, 1) == Ids{0});
  CHECK(SpreadExamples(3, 200) == Ids{0, 1, 2});
  CHECK(SpreadExamples(101, 3) == Ids{0, 50, 100});
}

TEST_CASE("the first tensor that differs is named", "[plugin][probe]") {
  const Digest128 a{1, 2};
  const Digest128 b{1, 3};
  const std::vector<ProbedExample> one = {Built(4, {a, a}), Built(9, {a, b})};
  CHECK_FALSE(FirstDifference(kTensors, one, one).has_value());
  CHECK(FirstDifference(kTensors, one, std::vector{one[0], Built(9, {a, a})}) ==
        "example 9, tensor y");
  const ProbedExample dropped{.id = 4, .outcome = RowOutcome::kDropped, .tensors = {}};
  CHECK(FirstDifference(kTensors, one, std::vector{dropped, one[1]}) ==
        "example 4, which is built in one process and not in the other");
}

}  // namespace millrace
