// One dataset of a PlanLibrary. Only the library's own files include this.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/plan/plan_library.h"

namespace millrace {

/// One dataset. `opening` is held while an index is built, `mutex` only for moments.
struct PlanLibrary::Entry {
  std::string id;
  DatasetLocation location;

  Mutex opening;
  mutable Mutex mutex;
  std::shared_ptr<const DatasetKind> kind MILLRACE_GUARDED_BY(mutex);  // null: not known yet
  std::shared_ptr<const Dataset> dataset MILLRACE_GUARDED_BY(mutex);
  std::vector<std::string> damaged MILLRACE_GUARDED_BY(mutex);
  std::string error MILLRACE_GUARDED_BY(mutex);
  bool in_progress MILLRACE_GUARDED_BY(mutex) = false;
  double indexing MILLRACE_GUARDED_BY(mutex) = 0;
};

}  // namespace millrace
