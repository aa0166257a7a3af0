#include "common/operations/program.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

using test::Ints;
using Names = std::vector<std::string>;

Params FromTo(std::int64_t from, std::int64_t to) { return Params({{"range", Ints{from, to}}}); }

Params AsType(const char* dtype) { return Params({{"dtype", std::string(dtype)}}); }

/// Says what it was told.
class Watcher final : public ProgramObserver {
 public:
  explicit Watcher(const Names& phases) : phases_(phases) {}
  void OnPhase(std::size_t phase) override { told.push_back(phases_.at(phase)); }
  void OnEnd() override { told.emplace_back("end"); }

  Names told;

 private:
  const Names& phases_;
};

/// A program that computes all outputs of a graph over bytes `d`, integers `n` that are widened,
/// and ragged floats `x`.
struct PhasesOf {
  explicit PhasesOf(std::vector<TensorDefinition> definitions,
                    std::optional<Names> outputs = std::nullopt,
                    std::map<std::string, Params> pads = {}) {
    TensorGraphText text;
    text.sources = {{"d", ParseTensorType("bytes[2]").value()},
                    {"n", ParseTensorType("uint8[2]").value(), /*widened=*/true},
                    {"x", ParseTensorType("float32[*]").value()}};
    text.definitions = std::move(definitions);
    text.outputs = std::move(outputs);
    text.pads = std::move(pads);
    const TensorGraph graph = TensorGraph::Bind(text).value();
    std::vector<std::size_t> inputs;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      if (graph.nodes()[i].operation == nullptr) inputs.push_back(i);
    }
    std::vector<ProgramOutput> made;
    for (const TensorOutput& output : graph.outputs()) {
      if (graph.nodes()[output.node].operation == nullptr && !output.pad) continue;
      made.push_back({output.node, output.pad});
    }
    program = Program::Compile(graph, inputs, made);
  }

  /// Runs the program on one example; gives what an observer is told.
  Names Run() const {
    const test::Tensor d = test::Dense<std::uint8_t>("bytes[2]", 1, {0x80, 0x01});
    const test::Tensor n = test::Dense<std::uint8_t>("uint8[2]", 1, {3, 4});
    const test::Tensor x = test::Ragged<float>("float32[*]", {{1, 2, 3}});
    const std::vector<TensorView> views = {d.View(), n.View(), x.View()};
    std::vector<std::vector<std::uint64_t>> rooms;
    Watcher told(program.phases());
    ProgramRun run;
    run.observer = &told;
    run.room = [&](std::size_t, const TensorView& view) -> Result<std::span<std::byte>> {
      const std::size_t bytes = view.units() * view.type->UnitBytes();
      rooms.emplace_back(bytes / 8 + 1);
      return std::span(reinterpret_cast<std::byte*>(rooms.back().data()), bytes);
    };
    ProgramMemory memory;
    if (!program.Run(views, run, memory).ok()) told.told.emplace_back("failed");
    return told.told;
  }

  Program program;
};

TEST_CASE("a loop is named after the operations that run in it", "[program]") {
  const PhasesOf made({{"bits", "bits", {"d"}},
                       {"some", "slice", {"bits"}, FromTo(0, 8)},
                       {"board",
                        "take",
                        {"some"},
                        Params({{"index", Ints{3, 1}}, {"dtype", std::string("float32")}})},
                       {"sum", "concat", {"board", "wide"}},
                       {"wide", "cast", {"n"}, AsType("float32")}});
  CHECK(made.program.phases() == Names{"bits+slice+take", "cast", "concat"});
}

TEST_CASE("an operation after itself is named once, and one that nobody wrote only alone",
          "[program]") {
  const PhasesOf made({{"a", "slice", {"d"}, FromTo(0, 2)},
                       {"b", "slice", {"a"}, FromTo(1, 2)},
                       {"c", "slice", {"n"}, FromTo(0, 1)}},
                      Names{"b", "c"});
  CHECK(made.program.phases() == Names{"slice", "slice"});
  const PhasesOf widened({{"y", "concat", {"n", "n"}}});
  CHECK(widened.program.phases() == Names{"widen", "concat"});
}

TEST_CASE("an output that is padded, or that is also read, has a phase of its own", "[program]") {
  const PhasesOf made({{"y", "cast", {"x"}, AsType("float64")}}, Names{"y"}, {{"y", Params()}});
  CHECK(std::count(made.program.phases().begin(), made.program.phases().end(), "pad") == 1);
}

TEST_CASE("an observer is told of each phase when it begins, and of the end", "[program]") {
  const PhasesOf made({{"bits", "bits", {"d"}},
                       {"wide", "cast", {"n"}, AsType("float32")},
                       {"view", "reshape", {"d"}, Params({{"shape", Ints{1, 2}}})}});
  Names expected = made.program.phases();
  CHECK(expected.size() == 3);
  expected.emplace_back("end");
  CHECK(made.Run() == expected);
}

TEST_CASE("an observer of a run that fails is not told of an end", "[program]") {
  const PhasesOf made({{"hot", "one_hot", {"n"}, Params({{"depth", std::int64_t{2}}})}});
  CHECK(made.Run() == Names{"widen", "one_hot", "failed"});
}

TEST_CASE("names of phases are bounded in length and number", "[program]") {
  std::vector<TensorDefinition> chain = {{"t0", "bits", {"d"}}};
  for (int i = 1; i <= 20; ++i) {
    const std::string name = "t" + std::to_string(i);
    const std::string input = "t" + std::to_string(i - 1);
    if (i % 2 == 1) {
      chain.push_back({name, "transpose", {input}, Params({{"axes", Ints{0, 1}}})});
    } else {
      chain.push_back({name, "slice", {input}, FromTo(0, 16)});
    }
  }
  const PhasesOf made(chain);
  REQUIRE(made.program.phases().size() == 1);
  CHECK(made.program.phases()[0] == "bits+transpose+slice+transpose+slice+transpose+15 more");

  std::vector<TensorDefinition> many;
  for (int i = 0; i < 100; ++i) {
    many.push_back({"t" + std::to_string(i), "slice", {"d"}, FromTo(0, i % 2 + 1)});
    many.back().params = Params({{"range", Ints{i % 2, 2}}, {"scale", std::int64_t{i}}});
  }
  const PhasesOf wide(many);
  CHECK(wide.program.loops() == 100);
  REQUIRE(wide.program.phases().size() == ProgramPlan::kMaxPhases);
  CHECK(wide.program.phases()[ProgramPlan::kMaxPhases - 2] == "slice");
  CHECK(wide.program.phases().back() == "others");
  CHECK(wide.Run().size() == 101);
}

}  // namespace
}  // namespace millrace
