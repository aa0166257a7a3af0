// The state of several dispatchers, in etcd: written by the one that leads, and by no other.
//
// Every write compares the leader key's create revision with the one that made this process leader
// (election.h). The key goes with its lease, and one that comes after it has another revision, so
// that no write of an earlier leader passes, however late it comes. Every write also puts the term
// key again and compares when that was written last: what one member of the cluster got, and held
// back while another took the same or a later write, changes nothing when it comes.
// docs/state-format.md has the keys.
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

/// What makes a write that of a leader.
struct EtcdFence {
  std::string key;                   // the leader's
  std::int64_t create_revision = 0;  // since it leads
};

class EtcdStore final : public StateStore {
 public:
  /// `on_refused` is called, with why, when etcd has found that another one leads, or nobody. May
  /// be null.
  EtcdStore(std::shared_ptr<EtcdClient> client, std::string prefix, EtcdFence fence,
            std::function<void(const Status&)> on_refused);

  Result<StoredState> Load() override;
  /// FailedPrecondition also where this process leads no more.
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
  /// A transaction that compares the fence; one that was refused reads term and leader.
  etcdserverpb::TxnRequest Fenced() const;
  /// Why `response`, to a transaction that was refused, refuses; ok where only the term differs.
  Status CheckFence(const etcdserverpb::TxnResponse& response) const;
  Status CheckFormat(const mvccpb::KeyValue* format) const;
  std::string JobKey(const std::string& name) const;
  /// Does what `add` adds to a transaction, under `term`, after all writes before it.
  Status Write(std::uint64_t term, const std::function<void(etcdserverpb::TxnRequest&)>& add)
      MILLRACE_REQUIRES(mutex_);
  /// What is too old to be kept.
  std::vector<std::string> Stale(const v1::JobRecord& record, std::int64_t now_unix_seconds)
      MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<EtcdClient> client_;
  const std::string prefix_;
  const std::string term_key_;
  const std::string format_key_;
  const EtcdFence fence_;
  const std::function<void(const Status&)> on_refused_;

  Mutex mutex_;
  /// The revision of the last write, as far as is known: of the term key, 0 where there is none.
  std::optional<std::int64_t> written_at_ MILLRACE_GUARDED_BY(mutex_);
  /// Ended jobs that etcd has, by name; unset before they were read. The leader alone changes them.
  std::optional<std::map<std::string, std::int64_t>> ended_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
