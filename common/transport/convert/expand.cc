#include "common/transport/convert/expand.h"

#include <string>

#include "common/transport/convert/names.h"

namespace millrace {

Result<ExpandSpec> FromProto(const v1::ExpandSpec& spec) {
  MILLRACE_ASSIGN_OR_RETURN(
      const Symmetrization symmetrization,
      ByName("symmetrization", spec.symmetrization(), SymmetrizationFromName));
  return ExpandSpec{spec.base_edge_labels(), symmetrization, spec.add_self_edges(), spec.merged()};
}

void ToProto(const ExpandSpec& spec, v1::ExpandSpec* to) {
  to->set_base_edge_labels(spec.base_edge_labels);
  to->set_symmetrization(std::string(SymmetrizationName(spec.symmetrization)));
  to->set_add_self_edges(spec.add_self_edges);
  to->set_merged(spec.merged);
}

}  // namespace millrace
