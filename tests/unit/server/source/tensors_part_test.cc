// Tests of the places of errors in binding.
#include <catch2/catch.hpp>

#include <string>

#include "server/source/tensors_part.h"
#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace::test {
namespace {

TensorsPart Part() {
  return MustParse(Minimal("tensors:\n"
                           "  sum:  {concat: [a, b], axis: 2}\n"
                           "  flat: {expr: \"A + c.length * q\", with: {A: 1}, scale: [1, 2]}\n"
                           "  more:\n"
                           "    expr: |\n"
                           "      1 +\n"
                           "      q\n"
                           "output: [sum, x]\n"
                           "pad: {x: {to: 3}}\n"))
      .tensors();
}

std::string At(const std::string& message) {
  const Status status = AtOrigin(Part(), InvalidArgument(message));
  CHECK(status.code() == StatusCode::kInvalidArgument);
  return status.message();
}

}  // namespace

TEST_CASE("the error in a parameter has the place of its value", "[tensors_part]") {
  CHECK(At("sum: axis: is no axis") == "p.yaml:6:32: tensors.sum.axis: is no axis");
  CHECK(At("flat: scale: expected one number") ==
        "p.yaml:7:57: tensors.flat.scale: expected one number");
  CHECK(At("x: to: is no multiple") == "p.yaml:13:15: pad.x.to: is no multiple");
}

TEST_CASE("the error in inputs has the place of the operation's value", "[tensors_part]") {
  CHECK(At("sum: concat: they differ") == "p.yaml:6:18: tensors.sum.concat: they differ");
  CHECK(At("sum: there is no tensor 'b'") ==
        "p.yaml:6:18: tensors.sum.concat: there is no tensor 'b'");
}

TEST_CASE("the error in an expression has the place of its column, if that stands in the file",
          "[tensors_part]") {
  CHECK(At("flat: expr: column 5: is wrong") ==
        "p.yaml:7:21: tensors.flat.expr: column 5: is wrong");
  CHECK(At("flat: there is no tensor 'q'") ==
        "p.yaml:7:32: tensors.flat.expr: column 16: there is no tensor 'q'");
  CHECK(At("more: there is no tensor 'q'") ==
        "p.yaml:9:11: tensors.more.expr: column 5: there is no tensor 'q'");
  CHECK(At("flat: expr: a is int64") == "p.yaml:7:16: tensors.flat.expr: a is int64");
}

TEST_CASE("an error without a parameter has the place of the definition, output or pad",
          "[tensors_part]") {
  CHECK(At("sum: the source has a tensor of this name") ==
        "p.yaml:6:3: tensors.sum: the source has a tensor of this name");
  CHECK(At("output: there is no tensor 'x'") == "p.yaml:12:9: output: there is no tensor 'x'");
  CHECK(At("x: pad: expected a ragged tensor") ==
        "p.yaml:13:7: pad.x: pad: expected a ragged tensor");
}

TEST_CASE("what was written nowhere has no place", "[tensors_part]") {
  CHECK(At("c.length: length: expected a ragged tensor") ==
        "c.length: length: expected a ragged tensor");
  CHECK(AtOrigin(TensorsPart(), InvalidArgument("output: names no tensor")).message() ==
        "output: names no tensor");
  CHECK(AtOrigin(Part(), OkStatus()).ok());
}

TEST_CASE("what is wrong with a tensor stands where it is read", "[tensors_part]") {
  const TensorsPart part = Part();
  CHECK(part.Reads("x"));
  CHECK(part.Reads("q"));
  CHECK(part.Reads("b"));
  CHECK_FALSE(part.Reads("sum"));  // the part's own
  CHECK_FALSE(part.Reads("y"));
  const auto error = [&](std::string_view tensor) {
    return AtReader(part, tensor, "is missing").message();
  };
  CHECK(error("x") == "p.yaml:12:9: output: is missing");
  CHECK(error("b") == "p.yaml:6:18: tensors.sum.concat: is missing");
  CHECK(error("q") == "p.yaml:7:32: tensors.flat.expr: column 16: is missing");
  CHECK(AtReader({}, "x", "is missing").message() == "is missing");
}

}  // namespace millrace::test
