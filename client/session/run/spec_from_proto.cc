#include "client/session/run/spec_from_proto.h"

#include <array>
#include <string>
#include <string_view>

namespace millrace::client {
namespace {

template <class Enum, std::size_t n>
Result<Enum> Named(const char* what, const std::string& name, const std::array<Enum, n>& all,
                   std::string_view (*name_of)(Enum)) {
  for (const Enum value : all) {
    if (name_of(value) == name) return value;
  }
  return Unimplemented(std::string("a ") + what + " named '" + name +
                       "', which this program does not know: are the servers newer than it?");
}

constexpr std::array kKinds = {TensorKind::kDense, TensorKind::kRaggedValues, TensorKind::kSplits,
                               TensorKind::kStringBytes, TensorKind::kTableReference};
constexpr std::array kDTypes = {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
                                DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64};
constexpr std::array kSymmetrizations = {Symmetrization::kDirected, Symmetrization::kUndirected,
                                         Symmetrization::kBidirectional};

}  // namespace

Result<BatchSpec> SpecFromProto(const Admission& admission, DType index_dtype) {
  const v1::Spec& from = admission.spec;
  BatchSpec spec;
  for (const v1::TensorSpec& tensor : from.tensors()) {
    DeliveredTensorSpec& to = spec.tensors.emplace_back();
    to.path = tensor.path();
    MILLRACE_ASSIGN_OR_RETURN(to.kind, Named("tensor kind", tensor.kind(), kKinds, TensorKindName));
    MILLRACE_ASSIGN_OR_RETURN(to.packed_dtype,
                              Named("dtype", tensor.packed_dtype(), kDTypes, DTypeName));
    to.dtype = to.kind == TensorKind::kStringBytes ? DType::kUint8 : index_dtype;
    to.dimensions.assign(tensor.dimensions().begin(), tensor.dimensions().end());
    to.splits = tensor.splits();
    to.expansion = tensor.expand();
    to.min = tensor.min();
    to.max = tensor.max();
  }
  const v1::StepSpec& steps = from.steps();
  spec.steps = {steps.examples(), steps.size(), steps.global_size(), steps.keep(),
                steps.world_size()};
  spec.expand.base_edge_labels = from.expand().base_edge_labels();
  MILLRACE_ASSIGN_OR_RETURN(spec.expand.symmetrization,
                            Named("symmetrization", from.expand().symmetrization(),
                                  kSymmetrizations, SymmetrizationName));
  spec.expand.add_self_edges = from.expand().add_self_edges();
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
