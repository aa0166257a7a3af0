#include "server/dispatcher/machine/actions.h"

namespace millrace {

void MergeInto(v1::AttachResponse& waiting, v1::AttachResponse&& later) {
  // A Welcome is the whole truth, and ends a wait.
  if (later.has_welcome()) {
    waiting.clear_welcome();
    waiting.clear_waiting();
  }
  waiting.MergeFrom(std::move(later));
}

}  // namespace millrace
