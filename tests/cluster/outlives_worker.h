// An epoch of a cluster of which one worker is killed.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/test_cluster.h"

namespace millrace::test {

/// Checks that a consumer gets the whole epoch 0, with the reference's bytes, from two workers of
/// which one dies after ten steps, and that status shows the kind of the dataset.
inline void CheckOutlivesWorker(TestCluster& cluster, std::string_view kind) {
  cluster.AddWorker("one");
  cluster.AddWorker("two");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  INFO(session.status().message());
  REQUIRE(session.ok());
  std::vector<BatchRecord> read = *ReadAll(**session, 1, 10);
  const v1::ServiceStatus status = *cluster.Status();
  REQUIRE(status.workers_size() == 2);
  CHECK(status.workers(0).datasets().at("data").kind() == kind);
  cluster.KillWorker("one");
  const std::vector<BatchRecord> rest = *ReadAll(**session, 1);
  read.insert(read.end(), rest.begin(), rest.end());
  std::sort(read.begin(), read.end());
  CHECK(read == cluster.Reference(0, 1));
}

}  // namespace millrace::test
