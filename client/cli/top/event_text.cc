#include "client/cli/top/event_text.h"

#include <algorithm>
#include <array>

namespace millrace::cli {

std::vector<const v1::Event*> LastEvents(const v1::ServiceStatus& status) {
  constexpr int kMost = 10;
  std::vector<const v1::Event*> last;
  const int count = status.events_size();
  for (int i = count; i > std::max(0, count - kMost); --i) last.push_back(&status.events(i - 1));
  return last;
}

bool IsAlarm(std::string_view kind) {
  constexpr std::array<std::string_view, 5> kEnds{"_lost", "_failed", "_differ", "_refused",
                                                  "_over"};
  return std::any_of(kEnds.begin(), kEnds.end(),
                     [kind](std::string_view end) { return kind.ends_with(end); });
}

}  // namespace millrace::cli
