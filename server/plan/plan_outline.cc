#include "server/plan/plan_outline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/batch/layout/layout.h"
#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/expand.h"
#include "common/transport/convert/steps.h"
#include "common/transport/convert/tables.h"
#include "common/transport/convert/tensor_program.h"
#include "common/transport/convert/tensors.h"
#include "server/plan/tensors/tensor_plan.h"

namespace millrace {

PlanOutline::PlanOutline(PlanIdentity identity, const Source& source, const TensorPlan* computed,
                         const StepOptions& steps, const PlannedOrder& order)
    : identity_(std::move(identity)),
      steps_(steps),
      max_example_bytes_(computed == nullptr
                             ? source.max_example_bytes()
                             : computed->MaxExampleBytes(source.max_example_bytes())) {
  for (const TensorSpec& tensor : computed == nullptr ? source.tensors() : computed->tensors()) {
    millrace::ToProto(tensor, spec_.add_tensors());
  }
  if (computed != nullptr && computed->consumer()) {
    millrace::ToProto(*computed->consumer(), computed->operations(), spec_.mutable_program());
  }
  millrace::ToProto(steps_, spec_.mutable_steps());
  spec_.set_examples_per_epoch(order.order->rows());
  millrace::ToProto(source.expand(), spec_.mutable_expand());
  AddDropReasons(source.drop_reasons(), spec_);
  for (const TableSpec& table : identity_.statics.tables) {
    millrace::ToProto(table, spec_.add_tables());
  }
  for (const SourceTableSpec& table : source.tables()) {
    for (v1::TensorSpec& tensor : *spec_.mutable_tensors()) {
      const auto& paths = table.tensors;
      if (std::find(paths.begin(), paths.end(), tensor.path()) == paths.end()) continue;
      tensor.set_table(table.table.name);
    }
  }
  spec_.set_source(std::string(source.name()));
  for (std::size_t i = 0; i < order.branches.size(); ++i) {
    const BranchFacts& facts = order.branches[i];
    const SourceBranch& from = source.branches()[i];
    v1::Branch& branch = *spec_.add_branches();
    branch.set_name(facts.name);
    branch.set_dataset(from.dataset);
    branch.set_examples(facts.examples);
    branch.set_rows_per_epoch(facts.rows);
    branch.set_weight(facts.weight);
    branch.set_first_example(from.first);
    branch.set_source_examples(from.source->examples());
  }
  spec_.set_order_fingerprint(identity_.order_fingerprint.ToString());
}

Result<PlanOutline> PlanOutline::FromProto(const v1::PlanOutline& from) {
  PlanOutline outline;
  PlanIdentity& identity = outline.identity_;
  MILLRACE_ASSIGN_OR_RETURN(identity.fingerprint, Fingerprint::FromString(from.fingerprint()));
  MILLRACE_ASSIGN_OR_RETURN(identity.order_fingerprint,
                            Fingerprint::FromString(from.order_fingerprint()));
  for (const std::string& hex : from.dataset_digests()) {
    MILLRACE_ASSIGN_OR_RETURN(identity.dataset_digests.emplace_back(), Digest128::FromHex(hex));
  }
  identity.code = from.code();
  identity.statics.digest = from.static_digest();
  outline.steps_ = millrace::FromProto(from.spec().steps());
  outline.max_example_bytes_ = from.max_example_bytes();
  outline.spec_ = from.spec();
  return outline;
}

void PlanOutline::ToProto(v1::PlanOutline* to) const {
  to->set_fingerprint(identity_.fingerprint.ToString());
  to->set_order_fingerprint(identity_.order_fingerprint.ToString());
  for (const Digest128& digest : identity_.dataset_digests) {
    to->add_dataset_digests(digest.ToHex());
  }
  to->set_code(identity_.code);
  to->set_static_digest(identity_.statics.digest);
  *to->mutable_spec() = spec_;
  to->set_max_example_bytes(max_example_bytes_);
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
  std::uint64_t batch_bytes = 0;
  if (__builtin_mul_overflow(max_example_bytes_, steps.max_batch_rows(), &batch_bytes)) {
    batch_bytes = std::numeric_limits<std::uint64_t>::max();
  }
  spec.set_max_batch_bytes(batch_bytes);
  return spec;
}

}  // namespace millrace
