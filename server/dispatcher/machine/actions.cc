#include "server/dispatcher/machine/actions.h"

namespace millrace {

void MergeInto(v1::AttachResponse& waiting, v1::AttachResponse&& later) {
  // A Welcome replaces one that came before, and ends a wait.
  if (later.has_welcome()) {
    waiting.clear_welcome();
    waiting.clear_waiting();
  }
  // A list replaces the one before it, and one with members ends a wait.
  if (later.has_list()) {
    waiting.clear_list();
    if (!later.list().workers().empty()) waiting.clear_waiting();
  }
  waiting.MergeFrom(std::move(later));
}

}  // namespace millrace
