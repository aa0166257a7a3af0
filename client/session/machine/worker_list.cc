#include "client/session/machine/worker_list.h"

#include <algorithm>
#include <utility>

#include "common/base/mutant.h"

namespace millrace::client {

bool WorkerList::Take(const v1::WorkerList& list, std::uint64_t term, Time now) {
  if (term < term_ || (term == term_ && list.number() <= number_)) return false;
  if (term > term_ && term_ != 0 && !IsMutant(Mutant::kEmptyListObeyed)) {
    kept_ = Members();
    keep_until_ = now + kKeepMembers;
  } else if (!keep_until_) {
    kept_.clear();
  }
  term_ = term;
  number_ = list.number();
  told_.clear();
  for (const v1::WorkerRef& worker : list.workers()) told_.push_back(FromProto(worker));
  if (!told_.empty()) last_ = Members();
  return true;
}

bool WorkerList::OnDispatcherLost() {
  if (last_.empty() || !Members().empty()) return false;
  kept_ = last_;
  return true;
}

bool WorkerList::Tick(Time now) {
  if (!keep_until_ || now < *keep_until_) return false;
  keep_until_.reset();
  kept_.clear();
  return true;
}

std::vector<WorkerAddress> WorkerList::Members() const {
  std::vector<WorkerAddress> members = told_;
  for (const WorkerAddress& worker : kept_) {
    const bool named = std::any_of(told_.begin(), told_.end(), [&](const WorkerAddress& other) {
      return other.id == worker.id;
    });
    if (!named) members.push_back(worker);
  }
  return members;
}

}  // namespace millrace::client
