// A dispatcher's part in an election, for tests: its own client, election and store.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "server/state/etcd/election.h"
#include "server/state/etcd/etcd_store.h"
#include "tests/support/etcd_cluster.h"

namespace millrace::test {

constexpr const char* kPrefix = "/test";

struct Candidate {
  Candidate(const EtcdCluster& cluster, const std::string& who,
            Duration ttl = std::chrono::hours(1),
            std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>())
      : client(std::make_shared<EtcdClient>(cluster.endpoints())),
        election(client, {.prefix = kPrefix, .who = who, .ttl = ttl}, std::move(clock),
                 MakeNullLogger()) {}

  bool leads() const { return election.fence().has_value(); }
  /// A store that writes as the leader that this dispatcher is now.
  std::unique_ptr<EtcdStore> Store() {
    REQUIRE(leads());
    const EtcdFence fence = *election.fence();
    return std::make_unique<EtcdStore>(client, kPrefix, fence,
                                       [this, revision = fence.create_revision](const Status& why) {
                                         election.Lose(revision, why);
                                       });
  }

  std::shared_ptr<EtcdClient> client;
  Election election;
};

/// Runs steps of all candidates until `done`; returns how many seconds that took.
template <class Done>
double StepUntil(std::initializer_list<Candidate*> candidates, Done done) {
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  while (!done()) {
    for (Candidate* candidate : candidates) candidate->election.Step();
    if (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return passed();
}

}  // namespace millrace::test
