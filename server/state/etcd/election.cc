#include "server/state/etcd/election.h"

#include <chrono>
#include <utility>

namespace millrace {

Election::Election(std::shared_ptr<EtcdClient> client, ElectionOptions options,
                   std::shared_ptr<const Clock> clock, std::shared_ptr<Logger> logger)
    : client_(std::move(client)),
      options_(std::move(options)),
      key_(options_.prefix + "/leader"),
      clock_(std::move(clock)),
      logger_(std::move(logger)) {}

void Election::Step() {
  bool leading = false;
  {
    MutexLock lock(mutex_);
    if (create_revision_ != 0 && clock_->Now() >= leads_until_) {
      End("its lease was not renewed in time");
    }
    leading = create_revision_ != 0;
  }
  if (leading) return Renew(lease_);
  if (lease_ != 0) {
    // This lease is from an earlier leadership. While it lives, nobody else can lead.
    const Status ended = client_->Revoke(lease_);
    if (!ended.ok() && ended.code() != StatusCode::kNotFound) return Say(ended);
    lease_ = 0;
  }
  etcdserverpb::RangeRequest request;
  request.set_key(key_);
  const Result<etcdserverpb::RangeResponse> found = client_->Range(request);
  {
    MutexLock lock(mutex_);
    const std::optional<std::string> before = leader_;
    leader_ = !found.ok()             ? std::nullopt
              : found->kvs_size() > 0 ? std::optional(found->kvs(0).value())
                                      : std::optional(std::string());
    if (leader_ && !leader_->empty() && leader_ != before) {
      logger_->Info("stands by", {{"who", options_.who}, {"leader", *leader_}});
    }
  }
  if (!found.ok()) return Say(found.status());
  if (found->kvs_size() == 0) return Claim();
  Say(OkStatus());
}

void Election::Renew(std::int64_t lease) {
  const Time sent = clock_->Now();
  const Status renewed = client_->KeepAlive(lease);
  Say(renewed.code() == StatusCode::kNotFound ? OkStatus() : renewed);
  MutexLock lock(mutex_);
  if (create_revision_ == 0) return;
  if (renewed.code() == StatusCode::kNotFound) return End("its lease is over");
  // An answer that comes too late renews nothing, because callers of Leads were already told that
  // the lease is over.
  if (clock_->Now() >= leads_until_) return End("its lease was not renewed in time");
  if (renewed.ok()) leads_until_ = sent + options_.ttl;
}

void Election::Claim() {
  const Time sent = clock_->Now();
  const Result<std::int64_t> lease =
      client_->Grant(std::chrono::duration_cast<std::chrono::seconds>(options_.ttl).count());
  if (!lease.ok()) return Say(lease.status());
  lease_ = *lease;
  etcdserverpb::TxnRequest txn;
  *txn.add_compare() = etcd::CreatedAt(key_, 0);
  *txn.add_success() = etcd::Put(key_, options_.who, lease_);
  *txn.add_success() = etcd::Get(key_);
  *txn.add_failure() = etcd::Get(key_);
  const Result<etcdserverpb::TxnResponse> response = client_->Txn(txn);
  Say(response.status());
  if (!response.ok()) return;
  // If the answer to a first claim was lost, the second claim finds the key with this process's
  // lease.
  const mvccpb::KeyValue* key = etcd::Found(*response, response->succeeded() ? 1 : 0);
  MutexLock lock(mutex_);
  if (key == nullptr) return;
  leader_ = key->value();
  if (key->lease() != lease_) return;
  create_revision_ = key->create_revision();
  leads_until_ = sent + options_.ttl;
  logger_->Info("leads", {{"who", options_.who}, {"revision", create_revision_}});
}

void Election::Resign() {
  {
    MutexLock lock(mutex_);
    if (create_revision_ != 0) End("it stops");
  }
  if (lease_ != 0 && client_->Revoke(lease_).ok()) lease_ = 0;
}

std::optional<EtcdFence> Election::fence() const {
  MutexLock lock(mutex_);
  if (create_revision_ == 0 || clock_->Now() >= leads_until_) return std::nullopt;
  return EtcdFence{key_, create_revision_};
}

Status Election::Leads(std::int64_t create_revision) const {
  {
    MutexLock lock(mutex_);
    if (create_revision_ == create_revision && clock_->Now() < leads_until_) return OkStatus();
  }
  return NotTheLeader();
}

Status Election::NotTheLeader() const {
  MutexLock lock(mutex_);
  if (create_revision_ != 0) {
    return Unavailable(clock_->Now() < leads_until_
                           ? "not the leader: this dispatcher is about to lead"
                           : "not the leader: this dispatcher's lease was not renewed in time");
  }
  if (!leader_) return Unavailable("not the leader: etcd has not said who leads");
  return Unavailable("not the leader: " + (leader_->empty() ? "nobody" : *leader_) + " leads");
}

void Election::Lose(std::int64_t create_revision, const Status& why) {
  MutexLock lock(mutex_);
  if (create_revision_ == create_revision && create_revision != 0) End(why.message());
}

void Election::End(const std::string& why) {
  logger_->Warning("leads no more", {{"who", options_.who}, {"why", why}});
  create_revision_ = 0;
  leader_.reset();
}

void Election::Say(const Status& trouble) {
  if (trouble.message() == trouble_) return;
  trouble_ = trouble.message();
  if (!trouble.ok()) {
    logger_->Warning("election is held up; it is tried again and again", {{"why", trouble}});
  } else {
    logger_->Info("election goes on");
  }
}

}  // namespace millrace
