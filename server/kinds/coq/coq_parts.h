// The parts of a plan that only Coq's sources read.
//
// Value types.
#pragma once

#include <cstdint>

namespace millrace {

/// Decides which examples a source numbers. FilterPart leaves out numbered ones.
struct CoqNumberingPart {
  std::uint32_t required_tactic_occurrence = 1;  // at least 1
  bool restrict_to_spine = false;
};

enum class GlobalContextField : std::uint8_t { kReference, kFull, kOmitted };

struct CoqFieldsPart {
  GlobalContextField global_context = GlobalContextField::kReference;
  bool text = false;
};

}  // namespace millrace
