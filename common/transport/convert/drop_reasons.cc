#include "common/transport/convert/drop_reasons.h"

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {
namespace {

/// The protocol's value for a reason. The switch has no default, so that a reason without a
/// counterpart in the protocol does not compile.
constexpr v1::DropReason Twin(DropReason reason) {
  switch (reason) {
    case DropReason::kContextCutOff:
      return v1::CONTEXT_CUT_OFF;
    case DropReason::kTooLarge:
      return v1::TOO_LARGE;
    case DropReason::kUnlabelledDefinition:
      return v1::UNLABELLED_DEFINITION;
    case DropReason::kExcluded:
      return v1::EXCLUDED;
  }
  return v1::DROP_REASON_UNSPECIFIED;
}

constexpr bool ReasonNumbersAgree() {
  for (const DropReason reason : kNamedDropReasons) {
    if (Twin(reason) != static_cast<v1::DropReason>(reason)) return false;
  }
  return true;
}
static_assert(v1::DropReason_ARRAYSIZE == kNamedDropReasons.size() + 1,
              "common.proto and DropReason differ");
static_assert(ReasonNumbersAgree(), "a DropReason has another number in common.proto");
static_assert(v1::DropReason_ARRAYSIZE <= kDropReasons, "readers take no number so high");

}  // namespace

v1::DropReason ToProto(DropReason reason) { return static_cast<v1::DropReason>(reason); }

DropReasonNames DropReasonsOf(const v1::Spec& spec) {
  return DropReasonNames({spec.drop_reasons().begin(), spec.drop_reasons().end()});
}

void AddDropReasons(v1::Spec& spec) {
  for (const DropReason reason : kNamedDropReasons) {
    spec.add_drop_reasons(std::string(DropReasonName(reason)));
  }
}

std::string NameOf(const v1::DroppedCount& count, const DropReasonNames& names) {
  if (IsDropReasonName(count.name())) return count.name();
  return names.NameOf(static_cast<std::uint64_t>(count.reason()));
}

}  // namespace millrace
