// The reasons for which only the Coq kind drops examples.
#pragma once

#include "common/batch/layout/drop_reasons.h"
#include "common/batch/layout/layout.h"

namespace millrace {

/// A node of the example's local context was cut off by max_subgraph_size.
inline constexpr DropReason kContextCutOff{1};
/// The closure reaches a definition off the spine, and restrict_to_spine is set.
inline constexpr DropReason kUnlabelledDefinition{3};

inline DropReasonNames CoqDropReasons() {
  return DropReasonNames({"context_cut_off", "", "unlabelled_definition"});
}

}  // namespace millrace
