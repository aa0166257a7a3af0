#include "client/session/run/spec_from_proto.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/batch/layout/tensor_table.h"
#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/expand.h"
#include "common/transport/convert/steps.h"
#include "common/transport/convert/tables.h"
#include "common/transport/convert/tensor_program.h"
#include "common/transport/convert/tensors.h"

namespace millrace::client {
namespace {

constexpr std::string_view kPlanSpec = "the plan's spec";

/// What is delivered of batches with these tensors. REQUIRES: they keep the rules of
/// tensor_table.h.
Result<Delivery> DeliveryFromProto(const v1::Spec& from, const std::vector<TensorSpec>& tensors,
                                   DType index_dtype) {
  if (!from.has_program()) return Delivery(index_dtype);
  MILLRACE_ASSIGN_OR_RETURN(ConsumerProgram program,
                            millrace::FromProto(from.program(), OperationTable::Default()));
  Result<Delivery> made = Delivery::Make(tensors, std::move(program), index_dtype);
  if (!made.ok()) return made.status().WithContext(kPlanSpec);
  return made;
}

}  // namespace

Result<AdmittedPlan> PlanFromProto(const Admission& admission, DType index_dtype,
                                   std::uint32_t micro) {
  const v1::Spec& from = admission.spec;
  AdmittedPlan plan;
  BatchSpec& spec = plan.spec;
  std::vector<TensorSpec> tensors;
  for (const v1::TensorSpec& tensor : from.tensors()) {
    MILLRACE_ASSIGN_OR_RETURN(tensors.emplace_back(), millrace::FromProto(tensor));
  }
  spec.steps = millrace::FromProto(from.steps());
  MILLRACE_ASSIGN_OR_RETURN(spec.expand, millrace::FromProto(from.expand()));
  if (const auto edges = CheckTensors(tensors, spec.expand); !edges.ok()) {
    return edges.status().WithContext(kPlanSpec);
  }
  if (spec.expand.merged && micro > 1) {
    return InvalidArgument(fmt::format(
        "micro={}: a batch of the pipeline is one graph, which cannot be cut into parts; expected "
        "micro=1, or `closure: {{merge: false}}` in the pipeline",
        micro));
  }
  MILLRACE_ASSIGN_OR_RETURN(plan.delivery, DeliveryFromProto(from, tensors, index_dtype));
  spec.tensors = plan.delivery.Tensors(tensors);
  spec.graph_pad = plan.delivery.graph_pad();
  for (DeliveryTensor& delivered : spec.tensors) {
    const auto travels = std::find_if(
        from.tensors().begin(), from.tensors().end(),
        [&](const v1::TensorSpec& tensor) { return tensor.path() == delivered.packed.path; });
    if (travels != from.tensors().end()) delivered.table = travels->table();
  }
  spec.drop_reasons = DropReasonsOf(from);
  spec.token_tensor = from.token_tensor();
  spec.source = from.source();
  for (const v1::Branch& branch : from.branches()) {
    spec.branches.push_back({branch.name(), branch.dataset(), branch.weight(), branch.examples(),
                             branch.rows_per_epoch(), branch.first_example(),
                             branch.source_examples()});
  }
  MILLRACE_ASSIGN_OR_RETURN(spec.tables, TablesOf(from));
  spec.steps_per_epoch = from.steps_per_epoch();
  spec.examples_per_epoch = from.examples_per_epoch();
  spec.left_out_per_epoch = from.left_out_per_epoch();
  spec.max_batch_bytes = from.max_batch_bytes();
  spec.fingerprint = admission.fingerprint;
  MILLRACE_ASSIGN_OR_RETURN(spec.order_fingerprint,
                            Fingerprint::FromString(from.order_fingerprint()));
  spec.start = admission.start;
  return plan;
}

}  // namespace millrace::client
