#include "client/session/run/spec_from_proto.h"

#include <catch2/catch.hpp>

#include <string>

#include "common/transport/convert/tensors.h"

namespace millrace::client {
namespace {

/// An admission to a plan whose batches have this tensor only.
Admission PlanOf(const TensorSpec& tensor) {
  Admission admission;
  admission.spec.mutable_expand()->set_symmetrization("none");
  admission.spec.set_order_fingerprint(Fingerprint{{1, 2}, {3, 4}}.ToString());
  millrace::ToProto(tensor, admission.spec.add_tensors());
  return admission;
}

TensorSpec Board() {
  TensorSpec spec;
  spec.path = "board";
  spec.dtype = DType::kFloat16;
  spec.dimension = "batch";
  spec.inner = {8, 8, 24};
  spec.expansion = Expansion::kKeep;
  return spec;
}

TEST_CASE("a kept tensor is delivered with its own type, others as indexes", "[session]") {
  const auto board = PlanFromProto(PlanOf(Board()), DType::kInt64);
  REQUIRE(board.ok());
  CHECK(board->spec.tensors.at(0).packed == Board());
  CHECK(board->spec.tensors[0].dtype == DType::kFloat16);

  TensorSpec number;
  number.path = "number";
  number.dimension = "batch";
  number.max = 9;
  const auto widened = PlanFromProto(PlanOf(number), DType::kInt64);
  REQUIRE(widened.ok());
  CHECK(widened->spec.tensors.at(0).dtype == DType::kInt64);
}

TEST_CASE("a plan whose tensors break a rule is refused by the tensor's name", "[session]") {
  Admission admission = PlanOf(Board());
  admission.spec.mutable_tensors(0)->set_inner(1, -8);
  const Status status = PlanFromProto(admission, DType::kInt32).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(), Catch::Contains("the plan's spec: tensor board: an extent of"));
}

/// A plan that travels as a board, and is delivered as what one operation makes of it.
Admission Computed(const std::string& operation, std::uint32_t version) {
  Admission admission = PlanOf(Board());
  v1::TensorProgram& program = *admission.spec.mutable_program();
  v1::TensorDefinition& definition = *program.add_definitions();
  definition.set_name("x");
  definition.set_operation(operation);
  definition.set_version(version);
  definition.add_inputs("board");
  v1::OperationParam& dtype = *definition.add_params();
  dtype.set_name("dtype");
  dtype.set_text("float32");
  program.add_outputs()->set_name("x");
  return admission;
}

TEST_CASE("a spec describes what is delivered, computed tensors too", "[session]") {
  const auto plan = PlanFromProto(Computed("cast", 1), DType::kInt32);
  REQUIRE(plan.ok());
  REQUIRE(plan->spec.tensors.size() == 1);
  CHECK(plan->spec.tensors[0].packed.path == "x");
  CHECK(plan->spec.tensors[0].packed.inner == Board().inner);
  CHECK(plan->spec.tensors[0].dtype == DType::kFloat32);
  CHECK(plan->spec.tensors[0].computed);
}

TEST_CASE("an operation of another version, or an unknown one, asks for another client",
          "[session]") {
  const Status newer = PlanFromProto(Computed("cast", 9), DType::kInt32).status();
  CHECK(newer.code() == StatusCode::kUnimplemented);
  CHECK_THAT(newer.message(),
             Catch::Contains("tensor x: ") && Catch::Contains("update the client"));
  CHECK(PlanFromProto(Computed("wish", 1), DType::kInt32).status().code() ==
        StatusCode::kUnimplemented);
}

TEST_CASE("a program that does not suit the plan's tensors is refused", "[session]") {
  const Status status = PlanFromProto(Computed("one_hot", 1), DType::kInt32).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(), Catch::StartsWith("the plan's spec: x: "));
}

}  // namespace
}  // namespace millrace::client
