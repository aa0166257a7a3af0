// The backends with which every test of state_store_test.cc runs. Each starts anew and fails in its
// own way.
#pragma once

#include <memory>
#include <optional>

#include <sqlite3.h>
#include <catch2/catch.hpp>

#include "server/state/etcd/election.h"
#include "server/state/etcd/etcd_store.h"
#include "server/state/sqlite/sqlite_store.h"
#include "tests/support/memory_store.h"
#ifndef MILLRACE_WITHOUT_GRPC
#include "tests/support/etcd_cluster.h"
#endif
#include "tests/unit/server/state/sqlite/faulty_vfs.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::test {

// A backend has
//   store()     the store under test
//   Restart()   opens the store as the next process would
//   Break()     nothing can be written from now on, for a reason that may pass
//   Mend()      the reason has passed

/// Keeps its state in the process, so that Restart does nothing.
class Memory {
 public:
  StateStore& store() { return store_; }
  void Restart() {}
  void Break() { store_.FailWith(ResourceExhausted("no space")); }
  void Mend() { store_.FailWith(OkStatus()); }

 private:
  MemoryStore store_;
};

class Sqlite {
 public:
  Sqlite() { Restart(); }

  StateStore& store() { return *store_; }
  void Restart() {
    store_.reset();
    auto opened = SqliteStore::Open(folder_.path());
    INFO(opened.status().ToString());
    REQUIRE(opened.ok());
    store_ = std::move(opened).value();
  }
  void Break() { vfs_.Fail(FaultyVfs::Call::kWrite, 0, SQLITE_FULL, true); }
  void Mend() { vfs_.Heal(); }

 private:
  FaultyVfs vfs_;
  TemporaryFolder folder_;
  std::unique_ptr<StateStore> store_;
};

#ifndef MILLRACE_WITHOUT_GRPC
/// One etcd and its only dispatcher.
class Etcd {
 public:
  Etcd() { Restart(); }

  StateStore& store() { return *store_; }
  void Restart() {
    if (election_) election_->Resign();
    // No test renews the lease, so it is long.
    ElectionOptions options{.prefix = "/test", .who = "me", .ttl = std::chrono::hours(1)};
    election_.emplace(client_, options, std::make_shared<SystemClock>(), MakeNullLogger());
    election_->Step();
    REQUIRE(election_->fence());
    store_ = std::make_unique<EtcdStore>(client_, options.prefix, *election_->fence(), nullptr);
  }
  void Break() { cluster_.Kill(0); }
  void Mend() {
    cluster_.Start(0);
    cluster_.WaitUntilReady();
    // The connection is tried again within a second.
    while (store_->Load().status().code() == StatusCode::kUnavailable) {
    }
  }

 private:
  EtcdCluster cluster_;
  std::shared_ptr<EtcdClient> client_ = std::make_shared<EtcdClient>(cluster_.endpoints());
  std::optional<Election> election_;
  std::unique_ptr<EtcdStore> store_;
};
#endif

}  // namespace millrace::test
