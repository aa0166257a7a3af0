#include "server/state/etcd/etcd_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/parse_number.h"

namespace millrace {
namespace {

constexpr const char* kFormat = "1";
constexpr std::int64_t kRangePage = 100;        // records in one answer
constexpr std::size_t kMostDeletedAtOnce = 64;  // etcd accepts 128 steps per transaction
constexpr int kWriteTries = 3;  // a try is repeated if an earlier write arrived late

/// The first key after all keys that begin with `prefix`.
std::string EndOf(std::string prefix) {
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

Result<std::uint64_t> TermOf(const mvccpb::KeyValue* kv) {
  if (kv == nullptr) return std::uint64_t{0};
  const Result<std::uint64_t> term = ParseNumber<std::uint64_t>(kv->value());
  if (!term.ok()) {
    return DataLoss("etcd key " + kv->key() + ": expected a term, got '" + kv->value() +
                    "'; give another prefix, or delete the key");
  }
  return term;
}

/// The error if a transaction was refused although the values that it read say that it should pass.
Status ComparesOtherwise() {
  return Unavailable("etcd compares otherwise than it reads: try again");
}

std::int64_t RevisionOf(const mvccpb::KeyValue* kv) {
  return kv == nullptr ? 0 : kv->mod_revision();
}

}  // namespace

EtcdStore::EtcdStore(std::shared_ptr<EtcdClient> client, std::string prefix, EtcdFence fence,
                     std::function<void(const Status&)> on_refused)
    : client_(std::move(client)),
      prefix_(std::move(prefix)),
      term_key_(prefix_ + "/term"),
      format_key_(prefix_ + "/format"),
      fence_(std::move(fence)),
      on_refused_(std::move(on_refused)) {}

std::string EtcdStore::JobKey(const std::string& name) const { return prefix_ + "/jobs/" + name; }

etcdserverpb::TxnRequest EtcdStore::Fenced() const {
  etcdserverpb::TxnRequest txn;
  *txn.add_compare() = etcd::CreatedAt(fence_.key, fence_.create_revision);
  *txn.add_failure() = etcd::Get(term_key_);
  *txn.add_failure() = etcd::Get(fence_.key);
  return txn;
}

Status EtcdStore::CheckFence(const etcdserverpb::TxnResponse& response) const {
  const mvccpb::KeyValue* leader = etcd::Found(response, 1);
  if (leader != nullptr && leader->create_revision() == fence_.create_revision) return OkStatus();
  const Status refused = FailedPrecondition(
      "etcd refuses this dispatcher's write: " +
      (leader == nullptr ? "nobody leads" : leader->value() + " leads") + " by now");
  if (on_refused_) on_refused_(refused);
  return refused;
}

Status EtcdStore::CheckFormat(const mvccpb::KeyValue* format) const {
  if (format == nullptr || format->value() == kFormat) return OkStatus();
  return InvalidArgument("etcd key " + format_key_ + " has format " + format->value() +
                         ", written by a newer program; this one knows " + kFormat +
                         ": start the newer one, or use another prefix");
}

Result<StoredState> EtcdStore::Load() {
  MutexLock lock(mutex_);
  return LoadAll();
}

Result<StoredState> EtcdStore::LoadAll() {
  etcdserverpb::TxnRequest txn = Fenced();
  *txn.add_success() = etcd::Get(term_key_);
  *txn.add_success() = etcd::Get(format_key_);
  etcdserverpb::RangeRequest page;
  page.set_key(JobKey(""));
  page.set_range_end(EndOf(JobKey("")));
  page.set_limit(kRangePage);
  *txn.add_success()->mutable_request_range() = page;
  MILLRACE_ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse first, client_->Txn(txn));
  if (!first.succeeded()) {
    MILLRACE_RETURN_IF_ERROR(CheckFence(first));
    return ComparesOtherwise();
  }
  StoredState state;
  MILLRACE_ASSIGN_OR_RETURN(state.term, TermOf(etcd::Found(first, 0)));
  MILLRACE_RETURN_IF_ERROR(CheckFormat(etcd::Found(first, 1)));
  const std::int64_t written_at = RevisionOf(etcd::Found(first, 0));
  // All pages are read at the same revision, so that they show the same moment.
  page.set_revision(first.header().revision());
  std::map<std::string, std::int64_t> ended;
  etcdserverpb::RangeResponse range = first.responses(2).response_range();
  while (true) {
    for (const mvccpb::KeyValue& kv : range.kvs()) {
      v1::JobRecord& record = state.jobs.emplace_back();
      if (!record.ParseFromString(kv.value()) || JobKey(record.name()) != kv.key()) {
        return DataLoss("etcd key " + kv.key() +
                        ": a job record that cannot be read; delete the key (a past job is "
                        "forgotten, nothing else is lost)");
      }
      if (record.ended()) ended[record.name()] = record.ended_unix_seconds();
    }
    if (!range.more() || range.kvs_size() == 0) break;
    page.set_key(range.kvs(range.kvs_size() - 1).key() + '\0');
    MILLRACE_ASSIGN_OR_RETURN(range, client_->Range(page));
  }
  written_at_ = written_at;
  ended_ = std::move(ended);
  return state;
}

Status EtcdStore::CommitTerm(std::uint64_t term) {
  MutexLock lock(mutex_);
  etcdserverpb::TxnRequest read = Fenced();
  *read.add_success() = etcd::Get(term_key_);
  *read.add_success() = etcd::Get(format_key_);
  MILLRACE_ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse there, client_->Txn(read));
  if (!there.succeeded()) {
    MILLRACE_RETURN_IF_ERROR(CheckFence(there));
    return ComparesOtherwise();
  }
  const mvccpb::KeyValue* present = etcd::Found(there, 0);
  MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t present_term, TermOf(present));
  MILLRACE_RETURN_IF_ERROR(CheckFormat(etcd::Found(there, 1)));
  MILLRACE_RETURN_IF_ERROR(CheckNewTerm(term, present_term));

  etcdserverpb::TxnRequest txn = Fenced();
  *txn.add_compare() = etcd::ModifiedAt(term_key_, RevisionOf(present));
  *txn.add_success() = etcd::Put(term_key_, std::to_string(term));
  *txn.add_success() = etcd::Put(format_key_, kFormat);
  MILLRACE_ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse response, client_->Txn(txn));
  if (response.succeeded()) {
    written_at_ = response.header().revision();
    return OkStatus();
  }
  MILLRACE_RETURN_IF_ERROR(CheckFence(response));
  const mvccpb::KeyValue* const now = etcd::Found(response, 0);
  MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t now_term, TermOf(now));
  if (now_term != term) return CheckNewTerm(term, now_term);
  // It was written: the answer to the first try was lost. Nobody else writes under this fence.
  written_at_ = RevisionOf(now);
  return OkStatus();
}

std::vector<std::string> EtcdStore::Stale(const v1::JobRecord& record,
                                          std::int64_t now_unix_seconds) {
  std::vector<Ended> newest_first;
  for (const auto& [name, at] : *ended_) {
    if (name != record.name()) newest_first.push_back({at, name});
  }
  if (record.ended()) newest_first.push_back({record.ended_unix_seconds(), record.name()});
  std::sort(newest_first.begin(), newest_first.end(), [](const Ended& a, const Ended& b) {
    return a.at != b.at ? a.at > b.at : a.name < b.name;
  });
  std::vector<std::string> stale;
  for (std::size_t i = newest_first.size(); i-- > 0 && stale.size() < kMostDeletedAtOnce;) {
    const Ended& ended = newest_first[i];
    if (i < kEndedRecordsKept && ended.at >= now_unix_seconds - kEndedSecondsKept) break;
    stale.push_back(ended.name);
  }
  return stale;
}

Status EtcdStore::Write(std::uint64_t term,
                        const std::function<void(etcdserverpb::TxnRequest&)>& add) {
  const std::string term_text = std::to_string(term);
  for (int tries = 0; tries < kWriteTries; ++tries) {
    etcdserverpb::TxnRequest txn = Fenced();
    *txn.add_compare() = etcd::Has(term_key_, term_text);
    *txn.add_compare() = etcd::ModifiedAt(term_key_, *written_at_);
    *txn.add_success() = etcd::Put(term_key_, term_text);
    add(txn);
    MILLRACE_ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse response, client_->Txn(txn));
    if (response.succeeded()) {
      written_at_ = response.header().revision();
      return OkStatus();
    }
    MILLRACE_RETURN_IF_ERROR(CheckFence(response));
    const mvccpb::KeyValue* const present = etcd::Found(response, 0);
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t present_term, TermOf(present));
    MILLRACE_RETURN_IF_ERROR(CheckWritingTerm(term, present_term));
    // A write whose answer was lost has arrived meanwhile; it may even be this one. Try again after
    // it.
    written_at_ = RevisionOf(present);
  }
  return ComparesOtherwise();
}

Status EtcdStore::CommitJob(std::uint64_t term, const v1::JobRecord& record,
                            std::int64_t now_unix_seconds) {
  MutexLock lock(mutex_);
  if (!ended_ || !written_at_) {
    MILLRACE_ASSIGN_OR_RETURN(const StoredState read [[maybe_unused]], LoadAll());
  }
  const std::vector<std::string> stale = Stale(record, now_unix_seconds);
  const bool kept = std::find(stale.begin(), stale.end(), record.name()) == stale.end();
  MILLRACE_RETURN_IF_ERROR(Write(term, [&](etcdserverpb::TxnRequest& txn) {
    // A transaction may name each key only once.
    if (kept) *txn.add_success() = etcd::Put(JobKey(record.name()), record.SerializeAsString());
    for (const std::string& name : stale) *txn.add_success() = etcd::Delete(JobKey(name));
  }));
  ended_->erase(record.name());
  if (record.ended() && kept) (*ended_)[record.name()] = record.ended_unix_seconds();
  for (const std::string& name : stale) ended_->erase(name);
  return OkStatus();
}

}  // namespace millrace
