#include "common/transport/convert/steps.h"

namespace millrace {

StepOptions FromProto(const v1::StepSpec& spec) {
  return {.examples = spec.examples(),
          .size = spec.size(),
          .global_size = spec.global_size(),
          .keep = spec.keep(),
          .world_size = spec.world_size(),
          .unit_rows = spec.unit_rows()};
}

void ToProto(const StepOptions& options, v1::StepSpec* to) {
  to->set_examples(options.examples);
  to->set_size(options.size);
  to->set_global_size(options.global_size);
  to->set_keep(options.keep);
  to->set_world_size(options.world_size);
  to->set_unit_rows(options.unit_rows);
}

}  // namespace millrace
