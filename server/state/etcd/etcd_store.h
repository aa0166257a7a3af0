// The state of several dispatchers, in etcd. Only the dispatcher that leads writes it.
//
// Every write compares the create revision of the leader's key with the revision by which this
// process became leader (election.h). That key disappears with its lease, and a later key has
// another revision. So no write of an earlier leader succeeds, however late it arrives. Every write
// also writes the term key again, and compares the revision of the term key's last write. So if a
// member of the cluster has held back a write, and the same or a later write has meanwhile
// succeeded elsewhere, the late one changes nothing. docs/formats/state.md describes the keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/system/mutex.h"
#include "server/state/etcd/etcd_client.h"
#include "server/state/state_store.h"

namespace millrace {

/// Identifies the leader that writes.
struct EtcdFence {
  std::string key;                   // of the leader
  std::int64_t create_revision = 0;  // of that key, since it leads
};

class EtcdStore final : public StateStore {
 public:
  /// `on_refused` is called with the reason when etcd has found that another process leads, or
  /// nobody. It may be null.
  EtcdStore(std::shared_ptr<EtcdClient> client, std::string prefix, EtcdFence fence,
            std::function<void(const Status&)> on_refused);

  Result<StoredState> Load() override;
  /// FailedPrecondition also if this process no longer leads.
  Status CommitTerm(std::uint64_t term) override;
  Status CommitJob(std::uint64_t term, const v1::JobRecord& record,
                   std::int64_t now_unix_seconds) override;

 private:
  struct Ended {
    std::int64_t at = 0;
    std::string name;
    friend auto operator<=>(const Ended&, const Ended&) = default;
  };

  Result<StoredState> LoadAll() MILLRACE_REQUIRES(mutex_);
  /// A transaction that compares the fence. If the comparison fails, it reads the term and the
  /// leader instead.
  etcdserverpb::TxnRequest Fenced() const;
  /// Returns why a transaction was refused, from its response. Ok if only the term differs.
  Status CheckFence(const etcdserverpb::TxnResponse& response) const;
  Status CheckFormat(const mvccpb::KeyValue* format) const;
  std::string JobKey(const std::string& name) const;
  /// Runs a transaction with the steps that `add` adds, under `term`, after all earlier writes.
  Status Write(std::uint64_t term, const std::function<void(etcdserverpb::TxnRequest&)>& add)
      MILLRACE_REQUIRES(mutex_);
  /// The ended jobs whose records are too old to be kept.
  std::vector<std::string> Stale(const v1::JobRecord& record, std::int64_t now_unix_seconds)
      MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<EtcdClient> client_;
  const std::string prefix_;
  const std::string term_key_;
  const std::string format_key_;
  const EtcdFence fence_;
  const std::function<void(const Status&)> on_refused_;

  Mutex mutex_;
  /// The revision of the last known write of the term key; 0 if there is no such key.
  std::optional<std::int64_t> written_at_ MILLRACE_GUARDED_BY(mutex_);
  /// Ended jobs in etcd, by name; unset until they were read. Only the leader changes them.
  std::optional<std::map<std::string, std::int64_t>> ended_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
