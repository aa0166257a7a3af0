#include "server/plugin/process_budget.h"

#include <utility>

namespace millrace {

class ProcessBudget::Permit {
 public:
  explicit Permit(std::shared_ptr<ProcessBudget> budget) : budget_(std::move(budget)) {}
  ~Permit() { budget_->Return(); }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

 private:
  const std::shared_ptr<ProcessBudget> budget_;
};

void ProcessBudget::Join(std::weak_ptr<ProcessHolder> holder) {
  MutexLock lock(mutex_);
  std::erase_if(holders_, [](const auto& known) { return known.expired(); });
  holders_.push_back(std::move(holder));
}

Result<std::shared_ptr<void>> ProcessBudget::Take(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  ++waiting_;
  while (taken_ >= most_ && !stop.stop_requested()) {
    lock.Unlock();
    AskHolders();
    lock.Lock();
    // Nobody tells when a process becomes idle.
    if (taken_ >= most_) returned_.WaitFor(mutex_, kIdle);
  }
  --waiting_;
  if (stop.stop_requested()) return Cancelled("the request was cancelled");
  ++taken_;
  return std::shared_ptr<void>(std::make_shared<Permit>(shared_from_this()));
}

bool ProcessBudget::is_wanted() const {
  MutexLock lock(mutex_);
  return waiting_ > 0;
}

void ProcessBudget::AskHolders() {
  std::vector<std::weak_ptr<ProcessHolder>> holders;
  {
    MutexLock lock(mutex_);
    holders = holders_;
  }
  for (const std::weak_ptr<ProcessHolder>& one : holders) {
    const std::shared_ptr<ProcessHolder> holder = one.lock();
    if (holder != nullptr && holder->GiveUpIdle()) return;
  }
}

void ProcessBudget::Return() {
  MutexLock lock(mutex_);
  --taken_;
  returned_.NotifyOne();
}

}  // namespace millrace
