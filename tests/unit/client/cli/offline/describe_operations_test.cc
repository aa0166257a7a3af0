// Tests of what inspect says about definitions and operations.
#include <catch2/catch.hpp>

#include "client/cli/offline/describe_operations.h"
#include "client/cli/offline/inspect_pipeline.h"
#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace::cli {

using test::Minimal;
using test::MustParse;

TEST_CASE("inspect shows what a pipeline defines, delivers and pads", "[inspect]") {
  const std::string text = DescribePipeline(
      MustParse(Minimal("tensors: {b: {expr: a + 1, at: worker}, c: {stack: [a, b], dtype: int8}}\n"
                        "output: [c, b]\npad: {b: {to: 3}}\n")));
  CHECK_THAT(text, Catch::Contains("\nb            {expr: \"a + 1\", at: worker}\n"
                                   "c            {stack: [\"a\", \"b\"], dtype: int8}\n"
                                   "output       b, c\n"
                                   "pad          b: {to: 3}\n"));
  CHECK_THAT(
      DescribePipeline(
          MustParse(Minimal("pad: {graph: {nodes: 64, edges: 256, graphs: 9}, a: {to: 3}}\n"))),
      Catch::Contains("pad          a: {to: 3}, graph: {edges: 256, graphs: 9, nodes: 64}\n"));
  CHECK_THAT(DescribePipeline(MustParse(Minimal("tensors: {b: {bits: a}}\n"))),
             Catch::Contains("output       all that nothing else reads\n"));
  CHECK_THAT(DescribePipeline(MustParse(Minimal())), !Catch::Contains("tensor  "));
}

TEST_CASE("inspect prints help of every operation and its parameters", "[inspect]") {
  const OperationTable& table = OperationTable::Default();
  const std::string text = DescribeOperations(table);
  for (const OperationType& operation : table.operations()) {
    CHECK_THAT(text, Catch::Contains(operation.name + " (reads "));
    CHECK_THAT(text, Catch::Contains(operation.help));
    for (const Parameter& parameter : operation.parameters) {
      CHECK_THAT(text, Catch::Contains("  " + parameter.name + ": " + parameter.help));
    }
  }
  CHECK_THAT(text, Catch::Contains("      one of msb, lsb; default msb\n"));
  CHECK_THAT(text, Catch::Contains("cast (reads one tensor, version 1): the values converted to "
                                   "dtype\n  dtype: then converts the values\n"));
  CHECK_THAT(text, Catch::Contains("; required\n"));
  CHECK_THAT(text, Catch::Contains("pad.graph, of whole graphs:\n  nodes: nodes of every batch; at "
                                   "least one of them is padding\n      an integer from 1 to "
                                   "2147483647; required\n"));
}

}  // namespace millrace::cli
