// What the workers have said about the loop's next step, and the counts of a session's supply.

#include <algorithm>
#include <utility>

#include "client/session/machine/supply.h"

namespace millrace::client {

const WorkerLink* Supply::NextWorker() const {
  const StepAsks* const asks = asks_.Find(stock_.next());
  if (asks == nullptr) return nullptr;
  const auto first =
      std::min_element(asks->all().begin(), asks->all().end(), [](const Ask& a, const Ask& b) {
        return std::pair(!a.built, a.due) < std::pair(!b.built, b.due);
      });
  return workers_.Find(first->worker);
}

const WorkerWord::Build* Supply::NextBuild() const {
  const WorkerLink* const worker = NextWorker();
  if (worker == nullptr || !worker->stream.spoke()) return nullptr;
  const auto& building = worker->stream.word->building;
  const auto found = std::find_if(building.begin(), building.end(), [this](const auto& build) {
    return build.step == stock_.next();
  });
  return found == building.end() ? nullptr : &*found;
}

bool Supply::NextIsBuilt() const {
  const StepAsks* const asks = asks_.Find(stock_.next());
  return asks != nullptr && asks->is_built();
}

bool Supply::Connects() const {
  const auto& members = workers_.members();
  return !members.empty() && std::none_of(members.begin(), members.end(),
                                          [](const WorkerLink* w) { return w->stream.spoke(); });
}

void Supply::AddTo(SessionStats& stats) const {
  stats.asks_first = asks_.made(AskKind::kFirst);
  stats.asks_copy = asks_.made(AskKind::kCopy);
  stats.asks_moved = asks_.made(AskKind::kMoved);
  stats.moved_failed = moved_failed_;
  stats.moved_drained = moved_drained_;
  stats.moved_refused = moved_refused_;
  stats.duplicates = duplicates_;
  stats.duplicate_mismatches = duplicate_mismatches_;
}

}  // namespace millrace::client
