#include "client/session/machine/window_homes.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"

namespace millrace::client {
namespace {

/// Far more windows than lie within reach of a loop.
constexpr std::size_t kMostKept = 4096;

std::uint64_t RankOf(const EpochWindow& window, WorkerId worker) {
  const std::string text =
      fmt::format("{}/window/{}/{}", window.epoch, window.number, worker.ToString());
  return Xxh3_64(std::as_bytes(std::span(text)));
}

}  // namespace

void WindowHomes::SetMembers(std::vector<WorkerId> members) {
  if (members == members_) return;
  members_ = std::move(members);
  homes_.clear();
}

WorkerId WindowHomes::HomeOf(const EpochWindow& window) {
  const auto found = homes_.find(window);
  if (found != homes_.end()) return found->second;
  WorkerId home = members_.front();
  std::uint64_t highest = 0;
  for (const WorkerId member : members_) {
    const std::uint64_t rank = RankOf(window, member);
    if (rank <= highest) continue;
    highest = rank;
    home = member;
  }
  if (homes_.size() >= kMostKept) homes_.clear();
  homes_[window] = home;
  return home;
}

}  // namespace millrace::client
