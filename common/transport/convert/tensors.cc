#include "common/transport/convert/tensors.h"

#include <string>

#include "common/transport/convert/names.h"

namespace millrace {

Result<TensorSpec> FromProto(const v1::TensorSpec& tensor) {
  TensorSpec spec;
  spec.path = tensor.path();
  MILLRACE_ASSIGN_OR_RETURN(spec.kind, ByName("tensor kind", tensor.kind(), TensorKindFromName));
  MILLRACE_ASSIGN_OR_RETURN(spec.dtype, ByName("dtype", tensor.packed_dtype(), DTypeFromName));
  MILLRACE_ASSIGN_OR_RETURN(spec.expansion,
                            ByName("way to expand", tensor.expand(), ExpansionFromName));
  spec.dimension = tensor.dimension();
  // A negative extent becomes a very large one, which no tensor may have.
  for (const std::int64_t extent : tensor.inner()) {
    spec.inner.push_back(static_cast<std::uint64_t>(extent));
  }
  spec.splits = tensor.splits();
  spec.node_splits = tensor.node_splits();
  spec.min = tensor.min();
  spec.max = tensor.max();
  return spec;
}

void ToProto(const TensorSpec& tensor, v1::TensorSpec* to) {
  to->set_path(tensor.path);
  to->set_kind(std::string(TensorKindName(tensor.kind)));
  to->set_packed_dtype(std::string(DTypeName(tensor.dtype)));
  to->set_delivered_dtype(tensor.expansion == Expansion::kKeep ? to->packed_dtype() : "int32");
  to->set_dimension(tensor.dimension);
  to->clear_inner();
  for (const std::uint64_t extent : tensor.inner) {
    to->add_inner(static_cast<std::int64_t>(extent));
  }
  to->set_splits(tensor.splits);
  to->set_node_splits(tensor.node_splits);
  to->set_min(tensor.min);
  to->set_max(tensor.max);
  to->set_expand(std::string(ExpansionName(tensor.expansion)));
}

}  // namespace millrace
