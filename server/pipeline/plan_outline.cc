#include "server/pipeline/plan_outline.h"

#include <utility>

#include "common/batch/layout/layout.h"
#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/expand.h"
#include "common/transport/convert/steps.h"

namespace millrace {
namespace {

void FillTensor(const TensorSpec& tensor, v1::TensorSpec& out) {
  out.set_path(tensor.path);
  out.set_kind(std::string(TensorKindName(tensor.kind)));
  out.set_packed_dtype(std::string(DTypeName(tensor.dtype)));
  out.set_delivered_dtype(tensor.kind == TensorKind::kStringBytes ? "uint8" : "int32");
  out.mutable_dimensions()->Assign(tensor.dimensions.begin(), tensor.dimensions.end());
  out.set_splits(tensor.splits);
  out.set_min(tensor.min);
  out.set_max(tensor.max);
  out.set_expand(std::string(ExpansionName(tensor.expansion)));
}

}  // namespace

PlanOutline::PlanOutline(PlanIdentity identity, const Source& source, const BatchOptions& batch,
                         std::uint64_t examples)
    : identity_(std::move(identity)),
      steps_{.examples = examples,
             .size = batch.size,
             .global_size = batch.global_size,
             .keep = batch.keep,
             .world_size = 1},
      max_example_bytes_(source.max_example_bytes()) {
  for (const TensorSpec& tensor : source.tensors()) FillTensor(tensor, *spec_.add_tensors());
  ToProto(steps_, spec_.mutable_steps());
  ToProto(source.expand(), spec_.mutable_expand());
  AddDropReasons(spec_);
  *spec_.mutable_labels() = source.label_counts();
  spec_.set_source(std::string(source.name()));
  spec_.set_order_fingerprint(identity_.order_fingerprint.ToString());
}

Result<StepArithmetic> PlanOutline::Steps(std::uint32_t world_size) const {
  StepOptions options = steps_;
  options.world_size = world_size;
  return StepArithmetic::Create(options);
}

Result<v1::Spec> PlanOutline::Spec(std::uint32_t world_size) const {
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, Steps(world_size));
  v1::Spec spec = spec_;
  spec.mutable_steps()->set_world_size(world_size);
  spec.set_steps_per_epoch(steps.StepsFrom(0));
  spec.set_left_out_per_epoch(steps.LeftOut());
  spec.set_max_batch_bytes(max_example_bytes_ * steps.batch_size());
  return spec;
}

}  // namespace millrace
