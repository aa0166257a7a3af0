// Which of several dispatchers leads: the one whose key is in etcd. The key hangs on a lease that
// its owner renews; a standby looks at the key every now and then and takes it when it is gone.
//
// A leader leads by its own clock: until its time to live has passed since it sent the last renewal
// that was answered. etcd ends the lease later than that, whatever happened to the leader
// meanwhile, so that no two lead at one time. Whoever acts as leader asks Leads before everything
// that it does: one that slept through its time does nothing any more.
//
//   standby ── key is gone ──▶ claim (a new key, only where there is none) ──▶ leader
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
  std::string prefix;                      // of the keys in etcd
  std::string who;                         // for the others' messages: "host:pid at host:port"
  Duration ttl = std::chrono::seconds(3);  // whole seconds; etcd takes no less than 2 as it is set
  Duration step = std::chrono::milliseconds(250);  // between two steps
};

/// One candidate. Step and Resign are one thread's; the rest is thread-safe.
class Election {
 public:
  /// `clock` has to be one of CLOCK_BOOTTIME, which counts while the machine sleeps.
  Election(std::shared_ptr<EtcdClient> client, ElectionOptions options,
           std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> logger);

  /// As leader renews the lease; as standby looks who leads, and claims where nobody does. Blocks
  /// for as long as etcd does. To be called every options.step.
  void Step();
  /// Leads no more, at once: a standby need not wait for the lease to end.
  void Resign();

  /// What this process may write with, while it leads.
  std::optional<EtcdFence> fence() const;
  /// Ok while this process leads by the key of `create_revision`; else Unavailable "not the leader:
  /// <who> leads", and from then on for ever.
  Status Leads(std::int64_t create_revision) const;
  /// The same for whoever is not the leader yet.
  Status NotTheLeader() const;
  /// Etcd has refused a write of that leader's.
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

  std::int64_t lease_ = 0;  // of this process; 0: none
  std::string trouble_;     // as it was said last

  mutable Mutex mutex_;
  std::int64_t create_revision_ MILLRACE_GUARDED_BY(mutex_) =
      0;  // of this leader's key; 0: standby
  Time leads_until_ MILLRACE_GUARDED_BY(mutex_);
  /// Who leads, as last seen; empty: nobody. Unset where that is not known.
  std::optional<std::string> leader_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
