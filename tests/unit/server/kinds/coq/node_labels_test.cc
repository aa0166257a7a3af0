#include <catch2/catch.hpp>

#include <vector>

#include "server/kinds/coq/node_labels.h"
#include "tests/unit/server/kinds/coq/fake_index.h"

namespace millrace::test {
namespace {

TEST_CASE("labels go along the spine where only spines count, else through the list", "[labels]") {
  std::vector<FakeFile> files(2);
  files[0].definitions = {{}, {.previous = 0}, {.previous = 0}};
  files[0].representative = 1;
  files[1].definitions = {{}};
  const FakeIndex index(files);
  const NodeLabels all(index, false);
  CHECK(all.size() == 30);
  CHECK(all.Label(2) == 28);
  CHECK(all.Definition(29) == 3);
  CHECK(all.Find({0, 2}) == 28);
  CHECK(all.Find({1, 1}) == NodeLabels::kNoDefinition);
  const NodeLabels spine(index, true);
  CHECK(spine.size() == 28);
  CHECK(spine.Label(1) == 26);
  CHECK(spine.Label(0) == 27);
  CHECK(spine.Label(2) == kNoRef);
  CHECK(spine.Definition(26) == 1);
  CHECK(spine.Find({0, 2}) == kNoRef);
  CHECK(spine.Find({1, 0}) == kNoRef);
}

}  // namespace
}  // namespace millrace::test
