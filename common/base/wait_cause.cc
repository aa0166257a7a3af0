#include "common/base/wait_cause.h"

#include <array>

namespace millrace {

std::string_view WaitCauseName(WaitCause cause) {
  constexpr std::array<std::string_view, kWaitCauses> kNames = {
      "none",  "attach",   "lease",  "connect", "build",
      "queue", "transfer", "expand", "slot",    "python"};
  return kNames[static_cast<std::size_t>(cause)];
}

bool IsPythonStage(std::string_view stage) {
  constexpr std::string_view kComputed = "tensors: ";
  constexpr std::string_view kPython = "python";
  if (stage.starts_with(kComputed)) stage.remove_prefix(kComputed.size());
  if (!stage.starts_with(kPython)) return false;
  stage.remove_prefix(kPython.size());
  return stage.empty() || stage.starts_with(':');
}

}  // namespace millrace
