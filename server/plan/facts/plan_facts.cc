#include "server/plan/facts/plan_facts.h"

#include <limits>

#include "common/transport/convert/steps.h"

namespace millrace {

Result<PlanFacts> PlanFacts::FromProto(const v1::PlanOutline& outline) {
  PlanFields fields;
  MILLRACE_ASSIGN_OR_RETURN(fields.fingerprint, Fingerprint::FromString(outline.fingerprint()));
  MILLRACE_ASSIGN_OR_RETURN(fields.order_fingerprint,
                            Fingerprint::FromString(outline.order_fingerprint()));
  for (const std::string& hex : outline.dataset_digests()) {
    MILLRACE_ASSIGN_OR_RETURN(fields.datasets.emplace_back().digest, Digest128::FromHex(hex));
  }
  fields.code = outline.code();
  fields.static_digest = outline.static_digest();
  fields.steps = millrace::FromProto(outline.spec().steps());
  fields.max_example_bytes = outline.max_example_bytes();
  fields.spec = outline.spec();
  return PlanFacts(std::move(fields));
}

v1::PlanOutline PlanFacts::ToProto() const {
  v1::PlanOutline outline;
  outline.set_fingerprint(fields_.fingerprint.ToString());
  outline.set_order_fingerprint(fields_.order_fingerprint.ToString());
  for (const PlanDataset& dataset : fields_.datasets) {
    outline.add_dataset_digests(dataset.digest.ToHex());
  }
  outline.set_code(fields_.code);
  outline.set_static_digest(fields_.static_digest);
  *outline.mutable_spec() = fields_.spec;
  outline.set_max_example_bytes(fields_.max_example_bytes);
  return outline;
}

Result<StepArithmetic> PlanFacts::Steps(std::uint32_t world_size) const {
  StepOptions options = fields_.steps;
  options.world_size = world_size;
  return StepArithmetic::Create(options);
}

Result<v1::Spec> PlanFacts::Spec(std::uint32_t world_size) const {
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, Steps(world_size));
  v1::Spec spec = fields_.spec;
  spec.mutable_steps()->set_world_size(world_size);
  spec.set_steps_per_epoch(steps.StepsFrom(0));
  spec.set_left_out_per_epoch(steps.LeftOut());
  if (fields_.max_example_bytes == 0) return spec;
  std::uint64_t batch_bytes = 0;
  if (__builtin_mul_overflow(fields_.max_example_bytes, steps.max_batch_rows(), &batch_bytes)) {
    batch_bytes = std::numeric_limits<std::uint64_t>::max();
  }
  spec.set_max_batch_bytes(batch_bytes);
  return spec;
}

}  // namespace millrace
