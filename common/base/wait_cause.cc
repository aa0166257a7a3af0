#include "common/base/wait_cause.h"

#include <array>

namespace millrace {

std::string_view WaitCauseName(WaitCause cause) {
  constexpr std::array<std::string_view, kWaitCauses> kNames = {
      "none", "attach", "lease", "connect", "build", "queue", "transfer", "expand", "slot"};
  return kNames[static_cast<std::size_t>(cause)];
}

}  // namespace millrace
