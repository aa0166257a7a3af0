#include "server/pipeline/plan_spec.h"

#include <string>

#include "common/batch/layout.h"

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

v1::Spec MakeSpec(const Source& source, const StepArithmetic& steps,
                  const Fingerprint& order_fingerprint) {
  v1::Spec spec;
  for (const TensorSpec& tensor : source.tensors()) FillTensor(tensor, *spec.add_tensors());
  const StepOptions& options = steps.options();
  v1::StepSpec& step = *spec.mutable_steps();
  step.set_examples(options.examples);
  step.set_size(options.size);
  step.set_global_size(options.global_size);
  step.set_keep(options.keep);
  step.set_world_size(options.world_size);
  const ExpandSpec& expand = source.expand();
  spec.mutable_expand()->set_base_edge_labels(expand.base_edge_labels);
  spec.mutable_expand()->set_symmetrization(std::string(SymmetrizationName(expand.symmetrization)));
  spec.mutable_expand()->set_add_self_edges(expand.add_self_edges);
  *spec.mutable_labels() = source.label_counts();
  spec.set_source(std::string(source.name()));
  spec.set_steps_per_epoch(steps.StepsFrom(0));
  spec.set_left_out_per_epoch(steps.LeftOut());
  spec.set_max_batch_bytes(source.max_example_bytes() * steps.batch_size());
  spec.set_order_fingerprint(order_fingerprint.ToString());
  return spec;
}

}  // namespace millrace
