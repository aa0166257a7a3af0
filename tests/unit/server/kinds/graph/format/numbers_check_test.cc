#include "server/kinds/graph/format/numbers_check.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>

#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

using Catch::Contains;

/// Four nodes: 0 -> 1, 0; 1 -> 0; 2 -> 3, 2; 3 has no edges. The list `parts` has the graphs {0,
/// 1},
/// {} and {2, 3}, and `first` has the graph {0, 1}.
class WholeGraphFolder : public test::GraphFolder {
 public:
  WholeGraphFolder() : GraphFolder(4, 5) {
    description.edge_labels = {"a", "b"};
    description.node_labels = {"x", "y"};
    Add<std::int64_t>("indptr", DType::kInt64, {0, 2, 3, 5, 5});
    Add<std::int32_t>("indices", DType::kInt32, {1, 0, 0, 3, 2});
    Add<std::uint8_t>("edge_label", DType::kUint8, {0, 1, 0, 1, 1});
    Add<std::uint8_t>("node_label", DType::kUint8, {0, 1, 1, 0});
    Add<std::int32_t>("roots/some", DType::kInt32, {3, 0, 3});
    Add<std::int32_t>("graphs/parts", DType::kInt32, {0, 2, 2, 4});
    Add<std::int32_t>("graphs/first", DType::kInt32, {0, 2});
    REQUIRE(Seal().ok());
  }
  /// Overwrites a number, and gives what the check says.
  template <class T>
  std::string With(const std::string& array, std::uint64_t place, T number) const {
    test::OverwriteValue<T>(dir / (array + ".npy"), place, number);
    const auto dataset = Open();
    REQUIRE(dataset.ok());
    const Status status = CheckNumbers(**dataset, {.threads = 2});
    CHECK(status.code() == StatusCode::kDataLoss);
    return status.message();
  }
};

TEST_CASE("a graph whose numbers fit is right", "[numbers_check]") {
  const WholeGraphFolder folder;
  const Status status = CheckNumbers(**folder.Open(), {});
  INFO(status.message());
  CHECK(status.ok());
}

TEST_CASE("a wrong number of any array is named with its place", "[numbers_check]") {
  const WholeGraphFolder folder;
  SECTION("a row") {
    CHECK_THAT(folder.With<std::int64_t>("indptr", 2, 6),
               Contains("(array indptr): number 1 and the next"));
  }
  SECTION("the end of an edge") {
    CHECK_THAT(folder.With<std::int32_t>("indices", 4, 4),
               Contains("(array indices): number 4 is 4, expected 0 to below 4"));
  }
  SECTION("a label of an edge") {
    CHECK_THAT(folder.With<std::uint8_t>("edge_label", 4, 2),
               Contains("number 4 is 2, expected 0 to below 2"));
  }
  SECTION("labels that fall within a row") {
    CHECK_THAT(folder.With<std::uint8_t>("edge_label", 4, 0),
               Contains("number 4 is 0 after 1: labels of a row ascend"));
  }
  SECTION("a label of a node") {
    CHECK_THAT(folder.With<std::uint8_t>("node_label", 3, 7),
               Contains("(array node_label): number 3 is 7"));
  }
  SECTION("a root") {
    CHECK_THAT(folder.With<std::int32_t>("roots/some", 0, -1),
               Contains("(array roots/some): number 0 is -1"));
  }
  SECTION("a small graph that ends before it begins") {
    CHECK_THAT(folder.With<std::int32_t>("graphs/parts", 2, 1),
               Contains("(array graphs/parts): number 1 is 2, but the next is 1"));
  }
}

TEST_CASE("an edge between two small graphs is found", "[numbers_check]") {
  const WholeGraphFolder folder;
  CHECK_THAT(folder.With<std::int32_t>("indices", 3, 1),
             Contains("(array indices): number 3 is 1 in the row of node 2, whose small graph has "
                      "the nodes 2 to below 4: no edge leads from one small graph to another"));
}

TEST_CASE("a check of numbers ends when it is asked to", "[numbers_check]") {
  const WholeGraphFolder folder;
  std::stop_source stop;
  stop.request_stop();
  CHECK(CheckNumbers(**folder.Open(), {.stop = stop.get_token()}).code() == StatusCode::kCancelled);
}

}  // namespace
}  // namespace millrace
