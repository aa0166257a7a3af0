#include "client/session/run/spec_from_proto.h"

#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/expand.h"
#include "common/transport/convert/names.h"
#include "common/transport/convert/steps.h"

namespace millrace::client {

Result<BatchSpec> SpecFromProto(const Admission& admission, DType index_dtype) {
  const v1::Spec& from = admission.spec;
  BatchSpec spec;
  for (const v1::TensorSpec& tensor : from.tensors()) {
    DeliveredTensorSpec& to = spec.tensors.emplace_back();
    to.path = tensor.path();
    MILLRACE_ASSIGN_OR_RETURN(to.kind, ByName("tensor kind", tensor.kind(), TensorKindFromName));
    MILLRACE_ASSIGN_OR_RETURN(to.packed_dtype,
                              ByName("dtype", tensor.packed_dtype(), DTypeFromName));
    to.dtype = to.kind == TensorKind::kStringBytes ? DType::kUint8 : index_dtype;
    to.dimensions.assign(tensor.dimensions().begin(), tensor.dimensions().end());
    to.splits = tensor.splits();
    to.expansion = tensor.expand();
    to.min = tensor.min();
    to.max = tensor.max();
  }
  spec.steps = millrace::FromProto(from.steps());
  MILLRACE_ASSIGN_OR_RETURN(spec.expand, millrace::FromProto(from.expand()));
  spec.drop_reasons = DropReasonsOf(from);
  spec.source = from.source();
  spec.node_labels = from.labels().node_labels();
  spec.base_node_labels = from.labels().base_node_labels();
  spec.edge_labels = from.labels().edge_labels();
  spec.tactics = from.labels().tactics();
  spec.contexts = from.labels().contexts();
  spec.steps_per_epoch = from.steps_per_epoch();
  spec.left_out_per_epoch = from.left_out_per_epoch();
  spec.max_batch_bytes = from.max_batch_bytes();
  spec.fingerprint = admission.fingerprint;
  MILLRACE_ASSIGN_OR_RETURN(spec.order_fingerprint,
                            Fingerprint::FromString(from.order_fingerprint()));
  spec.start = admission.start;
  return spec;
}

}  // namespace millrace::client
