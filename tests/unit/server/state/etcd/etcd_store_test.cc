// The store in etcd: its fence, and failures that only etcd has.
#include <catch2/catch.hpp>

#include <vector>

#include <grpcpp/grpcpp.h>

#include "common/system/clock.h"
#include "etcd/rpc.grpc.pb.h"
#include "tests/support/certificates.h"
#include "tests/unit/server/state/etcd/candidate.h"
#include "tests/unit/server/state/job_record.h"
#include "tests/unit/server/state/store_backends.h"

#include "server/state/etcd/etcd_address.h"

namespace millrace::test {
namespace {

using Catch::Contains;

/// Writes a key without any fence, as a person could.
void Put(EtcdClient& client, const std::string& key, const std::string& value) {
  etcdserverpb::TxnRequest txn;
  *txn.add_success() = etcd::Put(key, value);
  REQUIRE(client.Txn(txn).ok());
}

etcdserverpb::RangeRequest RangeOf(const std::string& key) {
  etcdserverpb::RangeRequest request;
  request.set_key(key);
  return request;
}

/// A member in front of another one: it passes transactions on, keeps them back, or loses the
/// answers.
class OddMember final : public etcdserverpb::KV::Service {
 public:
  enum class Mood { kPassesOn, kKeeps, kLosesAnswers };

  explicit OddMember(const std::string& next) : next_(EtcdClient({next})) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_ != nullptr);
  }
  ~OddMember() override { server_->Shutdown(); }

  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }
  /// Passes on the transactions that it kept; returns how many of them had an effect.
  int PassOnLate() {
    int done = 0;
    for (const auto& txn : kept_) {
      const auto response = next_.Txn(txn);
      REQUIRE(response.ok());
      done += response->succeeded() ? 1 : 0;
    }
    kept_.clear();
    return done;
  }

  grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
                   etcdserverpb::TxnResponse* response) override {
    const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "lost");
    if (mood == Mood::kKeeps) {
      kept_.push_back(*request);
      return lost;
    }
    const auto passed_on = next_.Txn(*request);
    if (!passed_on.ok() || mood == Mood::kLosesAnswers) return lost;
    *response = *passed_on;
    return grpc::Status::OK;
  }

  Mood mood = Mood::kPassesOn;

 private:
  EtcdClient next_;
  int port_ = 0;
  std::vector<etcdserverpb::TxnRequest> kept_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_CASE("a write that one member holds back does nothing when it comes after others", "[etcd]") {
  EtcdCluster cluster;
  Candidate leader(cluster, "it");
  leader.election.Step();
  const std::string sound = cluster.endpoints().front();
  OddMember odd(sound);
  const auto store_of = [&](std::vector<std::string> endpoints) {
    return EtcdStore(std::make_shared<EtcdClient>(std::move(endpoints)), kPrefix,
                     *leader.election.fence(), nullptr);
  };
  const auto ended = [&] { return leader.Store()->Load()->jobs.at(0).ended(); };

  SECTION("the same one was done by another member, and one after it") {
    EtcdStore store = store_of({odd.endpoint(), sound});
    REQUIRE(store.CommitTerm(1).ok());
    REQUIRE(store.CommitJob(1, Record("a"), kNow).ok());
    odd.mood = OddMember::Mood::kKeeps;
    REQUIRE(store.CommitJob(1, Ended("a", kNow), kNow).ok());
    CHECK(ended());
    REQUIRE(store.CommitJob(1, Record("a"), kNow).ok());
    CHECK(odd.PassOnLate() == 0);
    CHECK_FALSE(ended());
  }
  SECTION("nobody knew what became of it, and another one was done") {
    EtcdStore store = store_of({odd.endpoint()});
    REQUIRE(store.CommitTerm(1).ok());
    REQUIRE(store.Load().ok());
    odd.mood = OddMember::Mood::kKeeps;
    CHECK(store.CommitJob(1, Record("a"), kNow).code() == StatusCode::kUnavailable);
    odd.mood = OddMember::Mood::kPassesOn;
    REQUIRE(store.CommitJob(1, Ended("a", kNow), kNow).ok());
    CHECK(odd.PassOnLate() == 0);
    CHECK(ended());
  }
  SECTION("it comes before the next one, which is done after it") {
    EtcdStore store = store_of({odd.endpoint()});
    REQUIRE(store.CommitTerm(1).ok());
    REQUIRE(store.Load().ok());
    odd.mood = OddMember::Mood::kKeeps;
    CHECK(store.CommitJob(1, Record("a"), kNow).code() == StatusCode::kUnavailable);
    CHECK(odd.PassOnLate() == 1);
    odd.mood = OddMember::Mood::kPassesOn;
    REQUIRE(store.CommitJob(1, Ended("a", kNow), kNow).ok());
    CHECK(ended());
  }
  SECTION("it was done, its answer was lost, and it is repeated") {
    EtcdStore store = store_of({odd.endpoint(), sound});
    REQUIRE(store.CommitTerm(1).ok());
    odd.mood = OddMember::Mood::kLosesAnswers;
    REQUIRE(store.CommitJob(1, Ended("a", kNow), kNow).ok());
    CHECK(ended());
    REQUIRE(store.CommitTerm(2).ok());
    CHECK(store.CommitJob(1, Record("a"), kNow).code() == StatusCode::kFailedPrecondition);
    REQUIRE(store.CommitJob(2, Record("a"), kNow).ok());
    CHECK_FALSE(ended());
  }
}

TEST_CASE("a leader that was followed by another writes nothing any more, and knows it", "[etcd]") {
  EtcdCluster cluster;
  Candidate old_leader(cluster, "old");
  Candidate new_leader(cluster, "new");
  old_leader.election.Step();
  const auto old_store = old_leader.Store();
  REQUIRE(old_store->CommitTerm(5).ok());
  REQUIRE(old_store->CommitJob(5, Record("a"), kNow).ok());
  const std::int64_t revision = old_leader.election.fence()->create_revision;

  SECTION("the new one has a term of its own") {
    etcdserverpb::TxnRequest gone;
    *gone.add_success() = etcd::Delete(std::string(kPrefix) + "/leader");
    REQUIRE(new_leader.client->Txn(gone).ok());
    new_leader.election.Step();
    REQUIRE(new_leader.Store()->CommitTerm(6).ok());
    const Status job = old_store->CommitJob(5, Ended("a", kNow), kNow);
    CHECK(job.code() == StatusCode::kFailedPrecondition);
    CHECK_THAT(job.message(), Contains("new leads"));
  }
  SECTION("the new one has not begun its term yet") {
    etcdserverpb::TxnRequest gone;
    *gone.add_success() = etcd::Delete(std::string(kPrefix) + "/leader");
    REQUIRE(new_leader.client->Txn(gone).ok());
    new_leader.election.Step();
    CHECK(old_store->CommitJob(5, Ended("a", kNow), kNow).code() ==
          StatusCode::kFailedPrecondition);
    CHECK(old_store->CommitTerm(7).code() == StatusCode::kFailedPrecondition);
    CHECK(old_store->Load().status().code() == StatusCode::kFailedPrecondition);
  }
  SECTION("nobody leads yet") {
    etcdserverpb::TxnRequest gone;
    *gone.add_success() = etcd::Delete(std::string(kPrefix) + "/leader");
    REQUIRE(new_leader.client->Txn(gone).ok());
    const Status term = old_store->CommitTerm(7);
    CHECK(term.code() == StatusCode::kFailedPrecondition);
    CHECK_THAT(term.message(), Contains("nobody leads"));
    new_leader.election.Step();
  }
  // By its own clock it could have led for another hour.
  CHECK_FALSE(old_leader.election.Leads(revision).ok());
  const auto state = new_leader.Store()->Load();
  REQUIRE(state.ok());
  REQUIRE(state->jobs.size() == 1);
  CHECK_FALSE(state->jobs[0].ended());
  CHECK(state->term < 7);
}

TEST_CASE("a leader that leads again writes under its new key only", "[etcd]") {
  EtcdCluster cluster;
  Candidate leader(cluster, "it");
  leader.election.Step();
  const auto before = leader.Store();
  REQUIRE(before->CommitTerm(1).ok());
  leader.election.Resign();
  leader.election.Step();
  const auto after = leader.Store();
  CHECK(before->CommitTerm(2).code() == StatusCode::kFailedPrecondition);
  CHECK(after->CommitTerm(2).ok());
  CHECK(leader.leads());
}

TEST_CASE("what a newer program or a person wrote into etcd is named, not guessed at", "[etcd]") {
  EtcdCluster cluster;
  Candidate leader(cluster, "it");
  leader.election.Step();
  const auto store = leader.Store();
  REQUIRE(store->CommitTerm(1).ok());
  SECTION("a newer format") {
    Put(*leader.client, "/test/format", "2");
    CHECK_THAT(store->Load().status().message(), Contains("/test/format has format 2"));
    CHECK_THAT(store->CommitTerm(2).message(), Contains("knows 1"));
  }
  SECTION("a term that is no number") {
    Put(*leader.client, "/test/term", "soon");
    CHECK(store->Load().status().code() == StatusCode::kDataLoss);
    CHECK_THAT(store->CommitTerm(2).message(), Contains("'soon'"));
  }
  SECTION("a record that is none") {
    Put(*leader.client, "/test/jobs/odd", "\xff\xff");
    CHECK(store->Load().status().code() == StatusCode::kDataLoss);
    CHECK_THAT(store->Load().status().message(), Contains("/test/jobs/odd"));
  }
  SECTION("another prefix is another state") {
    Put(*leader.client, "/testing/jobs/a", "\xff\xff");
    CHECK(store->Load().ok());
    CHECK(store->Load()->jobs.empty());
  }
}

TEST_CASE("etcd out of space: writes say so, the leader leads on, and no standby can take over",
          "[etcd]") {
  EtcdCluster cluster(1, 4 << 20);
  Candidate leader(cluster, "leader");
  Candidate standby(cluster, "standby");
  leader.election.Step();
  const auto store = leader.Store();
  REQUIRE(store->CommitTerm(1).ok());
  REQUIRE(store->CommitJob(1, Record("before"), kNow).ok());
  const std::string block(1 << 20, 'x');
  Status full;
  // etcd learns its size from what it has written to disk, up to 0.1 s after it took a value. In
  // that time a quick machine puts in many times what there is room for.
  for (int i = 0; i < 1000 && full.ok(); ++i) {
    etcdserverpb::TxnRequest txn;
    *txn.add_success() = etcd::Put("filler" + std::to_string(i), block);
    full = leader.client->Txn(txn).status();
  }
  REQUIRE(full.code() == StatusCode::kResourceExhausted);

  const Status job = store->CommitJob(1, Record("during"), kNow);
  CHECK(job.code() == StatusCode::kResourceExhausted);
  CHECK_THAT(job.message(), Contains("database space exceeded"));
  CHECK_THAT(job.message(), Contains("compact and defragment"));
  CHECK(store->CommitTerm(2).code() == StatusCode::kResourceExhausted);
  CHECK(store->Load()->jobs.size() == 1);
  leader.election.Step();
  CHECK(leader.leads());

  leader.election.Resign();
  standby.election.Step();
  CHECK_FALSE(standby.leads());
  CHECK_THAT(standby.election.NotTheLeader().message(), Contains("nobody leads"));
}

TEST_CASE("a caller that asks without a pause finds an etcd that is back", "[etcd]") {
  for (int outages = 0; outages < 8; ++outages) {
    Etcd backend;
    REQUIRE(backend.store().CommitTerm(1).ok());
    backend.Break();
    for (int tries = 0; tries < 2; ++tries) {
      REQUIRE(backend.store().CommitTerm(2).code() == StatusCode::kUnavailable);
      REQUIRE(backend.store().CommitJob(1, Record("job"), kNow).code() == StatusCode::kUnavailable);
    }
    backend.Mend();  // asks without a pause
    REQUIRE(backend.store().Load().ok());
  }
}

TEST_CASE("etcd is reached over TLS, with a certificate if it wants one", "[etcd][tls]") {
  Certificates certificates;
  const std::string folder = certificates.Add("etcd", {});
  EtcdCluster cluster(1, 0, folder, /*client_certificates=*/true);
  const auto open = [](const std::string& path) {
    return *TlsFolder::Open({.folder = path, .proof = TlsProof::kNone},
                            std::make_shared<SystemClock>(), MakeNullLogger());
  };
  EtcdClient client(cluster.endpoints(), open(folder));
  Put(client, "a", "b");
  EtcdClient plain(cluster.endpoints());
  CHECK(plain.Range({}).status().code() == StatusCode::kUnavailable);
  EtcdClient bare(cluster.endpoints(), open(certificates.AddToken("bare", "x")));
  CHECK(bare.Range({}).status().code() == StatusCode::kUnavailable);
  EtcdClient stranger(cluster.endpoints(),
                      open(certificates.AddOf(Certificates::MakeCa(), "stranger", {})));
  CHECK(stranger.Range({}).status().code() == StatusCode::kUnavailable);
}

TEST_CASE("a client of etcd logs in with user and password, again when its token is over",
          "[etcd][tls]") {
  Certificates certificates;
  const std::string folder = certificates.Add("etcd", {});
  EtcdCluster cluster(1, 0, folder);
  const std::string user = certificates.AddToken("user", "x");
  EtcdClient client(cluster.endpoints(),
                    *TlsFolder::Open({.folder = user, .proof = TlsProof::kNone},
                                     std::make_shared<SystemClock>(), MakeNullLogger()));
  Put(client, "a", "b");
  cluster.EnableUsers("root", "s3cret");
  const Status unknown = client.Range(RangeOf("a")).status();
  CHECK(unknown.code() == StatusCode::kPermissionDenied);
  CHECK_THAT(unknown.message(), Contains("username and password"));
  WriteText(user + "/username", "root\n");
  WriteText(user + "/password", "wrong\n");
  CHECK_FALSE(client.Range(RangeOf("a")).ok());
  WriteText(user + "/password", "s3cret\n");
  CHECK(client.Range(RangeOf("a")).ok());
  // A member that starts again has forgotten its tokens.
  cluster.Kill(0);
  cluster.Start(0);
  cluster.WaitUntilReady();
  CHECK(client.Range(RangeOf("a")).ok());
}

TEST_CASE("an address of etcd is read, or what is wrong with it is said", "[etcd]") {
  const auto one = ParseEtcdAddress("etcd://a:1");
  REQUIRE(one.ok());
  CHECK(one->endpoints == std::vector<std::string>{"a:1"});
  CHECK(one->prefix == "/millrace");
  const auto three = ParseEtcdAddress("etcd://a:1,[::1]:2,10.0.0.3:2379/teams/blue");
  REQUIRE(three.ok());
  CHECK(three->endpoints == std::vector<std::string>{"a:1", "[::1]:2", "10.0.0.3:2379"});
  CHECK(three->prefix == "/teams/blue");
  CHECK_FALSE(three->tls);
  CHECK(ParseEtcdAddress("etcds://a:1")->tls);
  for (const char* bad : {"", "etcds://", "etcd://", "http://a:1", "etcd://a", "etcd://a:1,",
                          "etcd://a:1,b/x", "etcd://a:1/", "etcd://a:1/x/", "etcd://a:x",
                          "etcd://:1", "etcd://::1:2", "etcd://a:70000"}) {
    const Status status = ParseEtcdAddress(bad).status();
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK_THAT(status.message(), Contains("etcd://host:port"));
  }
}

}  // namespace
}  // namespace millrace::test
