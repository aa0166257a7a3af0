#include "server/kinds/coq/edges.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace millrace::test {
namespace {

TEST_CASE("base edge labels are the reference's", "[edges]") {
  const auto& labels = BaseEdgeLabels();
  CHECK(labels[2] == 0);                // contextDefType
  CHECK(labels[37] == 0);               // coFixFunType
  CHECK(labels[3] == 1);                // contextDefTerm
  CHECK(labels[38] == 1);               // coFixFunTerm
  CHECK(labels[0] == 2);                // contextElem
  CHECK(labels[1] == 3);                // contextSubject
  CHECK(labels[5] == 4);                // constUndef
  CHECK(labels[kConstOpaqueDef] == 6);  // no edge has this label
  CHECK(labels[8] == 7);                // constPrimitive, because constOpaqueDef has 6
  CHECK(labels[43] == 29);              // evarSubject
  const std::vector<std::string> names = BaseEdgeLabelNames();
  CHECK(names.size() == kBaseEdgeLabels);
  CHECK(names[6] == "constOpaqueDef");
  CHECK(names[0].starts_with("contextDefType|constType|"));
}

}  // namespace
}  // namespace millrace::test
