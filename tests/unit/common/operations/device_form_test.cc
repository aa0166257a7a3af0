#include "common/operations/device_form.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

/// A graph that has everything which operations give.
TensorGraph EveryOperation() {
  TensorGraphText text;
  text.sources = {{"d", ParseTensorType("uint8[4]").value()},
                  {"s", ParseTensorType("int64").value()},
                  {"tokens", ParseTensorType("int64[*]").value()}};
  text.definitions = {
      {"bits", "bits", {"d"}},
      {"part", "slice", {"bits"}, Params({{"range", test::Ints{0, 16}}})},
      {"some", "take", {"part"}, Params({{"index", test::Ints{3, 1}}})},
      {"shaped", "reshape", {"bits"}, Params({{"shape", test::Ints{4, 8}}})},
      {"turned", "transpose", {"shaped"}, Params({{"axes", test::Ints{0, 2, 1}}})},
      {"real", "cast", {"s"}, Params({{"dtype", std::string("float32")}, {"scale", 0.5}})},
      {"words", "view", {"d"}, Params({{"dtype", std::string("float32")}})},
      {"hot", "one_hot", {"s"}, Params({{"depth", std::int64_t{3}}})},
      {"head", "slice", {"tokens"}, Params({{"range", test::Ints{0, 2}}})},
      {"many", "length", {"head"}},
      {"sum", "expr", {"s"}, Params({{"expr", std::string("s + 1")}})},
      {"of_sum", "one_hot", {"sum"}, Params({{"depth", std::int64_t{3}}})},
      {"joined", "concat", {"part", "some"}},
      {"pair", "stack", {"real", "real"}},
      {"one", "slice", {"pair"}, Params({{"range", test::Ints{0, 1}}})},
  };
  text.outputs = {{"some", "turned", "real", "words", "hot", "many", "of_sum", "joined", "one"}};
  return TensorGraph::Bind(text).value();
}

std::vector<std::string> NamesOnDevice(const std::vector<std::string>& given) {
  const TensorGraph graph = EveryOperation();
  std::vector<std::size_t> nodes;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const std::string& name = graph.nodes()[i].name;
    if (std::count(given.begin(), given.end(), name) != 0) nodes.push_back(i);
  }
  const std::vector<bool> made = MadeByDevices(graph, nodes);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i]) names.push_back(graph.nodes()[i].name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("devices do what moves and converts values, one_hot, length and slices of rows",
          "[operations][device_form]") {
  CHECK(NamesOnDevice({"d", "s", "tokens"}) ==
        std::vector<std::string>{"bits", "d", "head", "hot", "many", "part", "real", "s", "shaped",
                                 "some", "tokens", "turned", "words"});
}

TEST_CASE("devices begin at the tensors that they are given", "[operations][device_form]") {
  CHECK(NamesOnDevice({"sum", "pair"}) == std::vector<std::string>{"of_sum", "one", "pair", "sum"});
}

}  // namespace
}  // namespace millrace
