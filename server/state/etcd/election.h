// Decides which of several dispatchers leads: the one whose key is in etcd. The key belongs to a
// lease, which its owner renews. A standby checks the key again and again, and claims it when it is
// gone.
//
// A leader leads by its own clock: until its time to live has passed since it sent the last renewal
// that was answered. etcd always ends the lease later than that, so no two dispatchers lead at the
// same time. Code that acts as leader calls Leads before each action. So a process that slept
// through its time does nothing any more.
//
//   standby ── key is gone ──▶ claim (a new key, only if there is none)    ──▶ leader
//      ▲                                                                        │
//      └─── time has passed, lease is over, or a write was refused ◀── renew ◀──┘
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "server/state/etcd/etcd_client.h"
#include "server/state/etcd/etcd_store.h"

namespace millrace {

struct ElectionOptions {
  std::string prefix;                      // begins all keys in etcd
  std::string who;                         // for messages to others: "host:pid at host:port"
  Duration ttl = std::chrono::seconds(3);  // whole seconds; etcd's default minimum is 2
  Duration step = std::chrono::milliseconds(250);  // time between two calls of Step
};

/// One candidate. One thread calls Step and Resign; the rest is thread-safe.
class Election {
 public:
  /// `clock` has to follow CLOCK_BOOTTIME, which keeps counting while the machine sleeps.
  Election(std::shared_ptr<EtcdClient> client, ElectionOptions options,
           std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> logger);

  /// A leader renews its lease. A standby checks who leads, and claims the leadership if nobody
  /// does. Blocks as long as etcd does. Call it every options.step.
  void Step();
  /// Gives up the leadership at once, so that a standby need not wait for the end of the lease.
  void Resign();

  /// The fence that makes this process's writes valid while it leads; nullopt while it does not.
  std::optional<EtcdFence> fence() const;
  /// Ok while this process leads with the key that was created at `create_revision`. Otherwise
  /// Unavailable "not the leader: <who> leads", and then forever.
  Status Leads(std::int64_t create_revision) const;
  /// The same error, for a process that is not the leader yet.
  Status NotTheLeader() const;
  /// Call it when etcd has refused a write of the leader with this key.
  void Lose(std::int64_t create_revision, const Status& why);

 private:
  void Renew(std::int64_t lease);
  void Claim();
  void End(const std::string& why) MILLRACE_REQUIRES(mutex_);
  void Say(const Status& trouble);

  const std::shared_ptr<EtcdClient> client_;
  const ElectionOptions options_;
  const std::string key_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<Logger> logger_;

  std::int64_t lease_ = 0;  // lease of this process; 0: no lease
  std::string trouble_;     // the last one that was logged

  mutable Mutex mutex_;
  std::int64_t create_revision_ MILLRACE_GUARDED_BY(mutex_) =
      0;  // revision of this leader's key; 0: standby
  Time leads_until_ MILLRACE_GUARDED_BY(mutex_);
  /// Who leads, as last seen. Empty: nobody. Unset: not known.
  std::optional<std::string> leader_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
