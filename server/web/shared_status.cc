#include "server/web/shared_status.h"

#include <chrono>
#include <cstdint>
#include <utility>

namespace millrace {
namespace {

constexpr Duration kFresh = std::chrono::seconds(1);

}  // namespace

SharedStatus::SharedStatus(std::function<Result<Text>()> build, std::shared_ptr<const Clock> clock)
    : build_(std::move(build)), clock_(std::move(clock)), answer_(Unavailable("no status yet")) {}

Result<SharedStatus::Text> SharedStatus::Get() {
  MutexLock lock(mutex_);
  if (building_) {
    if (waiting_ >= kMostWaiting) {
      return ResourceExhausted("many wait for the dispatcher's answer already: ask again in 1 s");
    }
    ++waiting_;
    const std::uint64_t before = answers_;
    while (answers_ == before) built_.Wait(mutex_);
    --waiting_;
    return answer_;
  }
  if (answers_ > 0 && clock_->Now() - begun_ < kFresh) return answer_;
  building_ = true;
  begun_ = clock_->Now();
  lock.Unlock();
  Result<Text> built = build_();
  lock.Lock();
  answer_ = std::move(built);
  building_ = false;
  ++answers_;
  built_.NotifyAll();
  return answer_;
}

}  // namespace millrace
