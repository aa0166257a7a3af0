// Servers and clients with TLS: every method, with every kind of peer that it must refuse.
#include <catch2/catch.hpp>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "common/access/rights.h"
#include "common/security/tls_probe.h"
#include "common/system/mutex.h"
#include "common/transport/grpc/grpc_client.h"
#include "common/transport/grpc/grpc_server.h"
#include "tests/support/certificates.h"
#include "tests/support/fake_clock.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

using test::Certificates;
using Code = StatusCode;

std::shared_ptr<TlsFolder> Open(
    const std::string& folder,
    const std::shared_ptr<const Clock>& clock = std::make_shared<SystemClock>()) {
  auto opened = TlsFolder::Open({.folder = folder, .proof = TlsProof::kCertificateOrToken}, clock,
                                MakeNullLogger());
  REQUIRE(opened.ok());
  return *opened;
}

/// Files as they are, also if they are no good.
std::string Text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Bob's token is "s3cret"; names are as their certificates say.
class TestPolicy final : public AccessPolicy {
 public:
  Result<Identity> Identify(const Shown& shown) override {
    if (shown.token != "s3cret" || shown.certificate) return others_.Identify(shown);
    return Identity{.proved = true, .name = "bob", .roles = {PeerRole::kTrainer}};
  }
  bool takes_tokens() const override { return true; }

 private:
  CertificatePolicy others_;
};

/// A dispatcher and a worker with TLS.
struct Fleet {
  Certificates certificates;
  std::shared_ptr<test::TestDispatcher> dispatcher = std::make_shared<test::TestDispatcher>();
  std::shared_ptr<test::TestWorker> worker = std::make_shared<test::TestWorker>();
  std::string serve = certificates.Add("serve", {PeerRole::kDispatcher, PeerRole::kWorker});
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>(Certificates::Now());
  Mutex mutex;
  std::vector<std::string> refused MILLRACE_GUARDED_BY(mutex);
  std::unique_ptr<GrpcServer> control;
  std::unique_ptr<GrpcServer> batches;

  explicit Fleet(bool tokens = false) {
    GrpcServerOptions options;
    options.security.tls = Open(serve, clock);
    if (tokens) options.security.policy = std::make_shared<TestPolicy>();
    options.security.on_refused_call = [this](std::string_view method, const Peer& peer,
                                              const Status& why) {
      MutexLock lock(mutex);
      refused.push_back(std::string(method) + " " + peer.identity.name + " " + why.message());
    };
    control = *GrpcServer::Start(options, std::shared_ptr<DispatcherEndpoint>(dispatcher));
    batches = *GrpcServer::Start(options, std::shared_ptr<WorkerEndpoint>(worker));
  }
  ~Fleet() {
    control->Shutdown(std::chrono::seconds(0));
    batches->Shutdown(std::chrono::seconds(0));
  }
  std::string AddressOf(const std::string& method) const {
    const bool of_worker = method.starts_with("/millrace.v1.Worker/");
    return "127.0.0.1:" + std::to_string((of_worker ? batches : control)->port());
  }
  std::string control_address() const { return "127.0.0.1:" + std::to_string(control->port()); }
};

std::vector<std::string> Methods() {
  std::vector<std::string> methods;
  for (const Right& right : RightsTable()) {
    if (!right.anybody) methods.emplace_back(right.method);
  }
  return methods;
}

/// Calls a method with an empty message over bare gRPC, and returns how that ends. A peer that is
/// let in may get messages without end: so the first one is enough. Streams end with the peer's
/// half.
grpc::Status Call(const std::string& address, const std::string& method,
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                  const std::string& token = "") {
  grpc::ChannelArguments arguments;
  const bool of_worker = method.starts_with("/millrace.v1.Worker/");
  arguments.SetSslTargetNameOverride(of_worker ? "worker.millrace" : "dispatcher.millrace");
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::GenericStub stub(grpc::CreateCustomChannel(address, credentials, arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + test::kPatience);
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, method, &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    return ok;
  };
  call->StartCall(nullptr);
  bool goes_on = wait();
  grpc::Slice empty;
  if (goes_on) {
    call->WriteLast(grpc::ByteBuffer(&empty, 1), grpc::WriteOptions(), nullptr);
    goes_on = wait();
  }
  if (goes_on) {
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    if (wait()) context.TryCancel();
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  queue.Shutdown();
  return status;
}

std::shared_ptr<grpc::ChannelCredentials> Credentials(const std::string& folder) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = Text(folder + "/ca.crt");
  options.pem_cert_chain = Text(folder + "/tls.crt");
  options.pem_private_key = Text(folder + "/tls.key");
  return grpc::SslCredentials(options);
}

bool IsDenied(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
         status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
}

/// The handshake failed, so that no call began.
bool HasNoConnection(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_message().find("failed to connect") != std::string::npos;
}

TEST_CASE("no method lets in a peer without a certificate that is good here", "[tls]") {
  Fleet fleet;
  Certificates& c = fleet.certificates;
  const CertificateAndKey other_ca = Certificates::MakeCa();
  const PeerRoles all{PeerRole::kDispatcher, PeerRole::kWorker, PeerRole::kTrainer,
                      PeerRole::kOperator, PeerRole::kViewer};
  const std::map<std::string, std::shared_ptr<grpc::ChannelCredentials>> peers{
      {"no TLS", grpc::InsecureChannelCredentials()},
      {"no certificate", Credentials(c.AddToken("none", "s3cret"))},
      {"of another CA", Credentials(c.AddOf(other_ca, "eve", all, -60, 3600, false))},
      {"expired", Credentials(c.Add("old", all, -7200, -3600))},
      {"not yet valid", Credentials(c.Add("early", all, 3600, 7200))},
  };
  for (const std::string& method : Methods()) {
    for (const auto& [name, credentials] : peers) {
      CAPTURE(method, name);
      CHECK(HasNoConnection(Call(fleet.AddressOf(method), method, credentials)));
    }
  }
}

TEST_CASE("each role calls what the table allows, and nothing else", "[tls]") {
  Fleet fleet;
  std::map<PeerRole, std::shared_ptr<grpc::ChannelCredentials>> peers;
  for (const PeerRole role : kPeerRoles) {
    peers[role] = Credentials(fleet.certificates.Add(std::string(PeerRoleName(role)), {role}));
  }
  const auto nobody = Credentials(fleet.certificates.Add("nobody", {}));
  for (const std::string& method : Methods()) {
    for (const auto& [role, credentials] : peers) {
      CAPTURE(method, PeerRoleName(role));
      const Identity peer{.proved = true, .roles = {role}};
      const grpc::Status status = Call(fleet.AddressOf(method), method, credentials);
      CAPTURE(status.error_code(), status.error_message());
      CHECK_FALSE(HasNoConnection(status));
      CHECK(IsDenied(status) == (ReachOf(method, peer) == Reach::kNone));
    }
    CAPTURE(method);
    CHECK(IsDenied(Call(fleet.AddressOf(method), method, nobody)));
  }
  CHECK(IsDenied(
      Call(fleet.control_address(), "/millrace.v1.Dispatcher/Reboot", peers[PeerRole::kOperator])));
}

TEST_CASE("a token is good for what its role may, and a wrong one or none for nothing", "[tls]") {
  Fleet fleet(/*tokens=*/true);
  const std::string folder = fleet.certificates.AddToken("bob", "s3cret");
  const auto bare = Credentials(folder);
  const Identity bob{.proved = true, .name = "bob", .roles = {PeerRole::kTrainer}};
  for (const std::string& method : Methods()) {
    CAPTURE(method);
    const std::string address = fleet.AddressOf(method);
    CHECK(IsDenied(Call(address, method, bare, "s3cret")) ==
          (ReachOf(method, bob) == Reach::kNone));
    CHECK(Call(address, method, bare, "wrong").error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(Call(address, method, bare).error_code() == grpc::StatusCode::UNAUTHENTICATED);
  }
}

TEST_CASE("a token that comes without TLS is refused by every method, and the answer says so",
          "[tls]") {
  const auto dispatcher = std::make_shared<test::TestDispatcher>();
  const auto worker = std::make_shared<test::TestWorker>();
  const auto control = *GrpcServer::Start({}, std::shared_ptr<DispatcherEndpoint>(dispatcher));
  const auto batches = *GrpcServer::Start({}, std::shared_ptr<WorkerEndpoint>(worker));
  for (const std::string& method : Methods()) {
    CAPTURE(method);
    const bool of_worker = method.starts_with("/millrace.v1.Worker/");
    const grpc::Status status =
        Call("127.0.0.1:" + std::to_string((of_worker ? batches : control)->port()), method,
             grpc::InsecureChannelCredentials(), "s3cret");
    CHECK(status.error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK_THAT(status.error_message(), Catch::Contains("connection without TLS"));
  }
  control->Shutdown(std::chrono::seconds(0));
  batches->Shutdown(std::chrono::seconds(0));
}

TEST_CASE("refused calls are told to the server's owner, without the token", "[tls]") {
  Fleet fleet(/*tokens=*/true);
  const auto bare = Credentials(fleet.certificates.AddToken("bob", "s3cret"));
  (void)Call(fleet.control_address(), "/millrace.v1.Dispatcher/EndJob", bare, "wr0ng");
  (void)Call(fleet.control_address(), "/millrace.v1.Dispatcher/Trace", bare, "s3cret");
  MutexLock lock(fleet.mutex);
  REQUIRE(fleet.refused.size() == 2);
  CHECK_THAT(fleet.refused[0], Catch::Contains("EndJob") && !Catch::Contains("wr0ng"));
  CHECK_THAT(fleet.refused[1],
             Catch::Contains("Trace bob bob (trainer) may not call Trace: expected the role "
                             "operator"));
}

TEST_CASE("a client says at which end the mistake is", "[tls]") {
  Fleet fleet;
  Certificates& c = fleet.certificates;
  const auto ask = [&](const std::string& folder, const std::string& address) {
    return MakeGrpcConnector({.tls = folder.empty() ? nullptr : Open(folder)})
        ->GetStatus(address, 5)
        .status()
        .message();
  };
  SECTION("nothing") {
    CHECK(ask(c.Add("carol", {PeerRole::kOperator}), fleet.control_address()).empty());
  }
  SECTION("a client without TLS") {
    CHECK_THAT(ask("", fleet.control_address()), Catch::Contains("wants TLS"));
  }
  SECTION("a server without TLS") {
    const auto dispatcher = std::make_shared<test::TestDispatcher>();
    const auto plain = *GrpcServer::Start({}, std::shared_ptr<DispatcherEndpoint>(dispatcher));
    CHECK_THAT(
        ask(c.Add("carol", {PeerRole::kOperator}), "127.0.0.1:" + std::to_string(plain->port())),
        Catch::Contains("speaks no TLS"));
    plain->Shutdown(std::chrono::seconds(0));
  }
  SECTION("another CA, whose certificate the client has") {
    const std::string folder = c.AddOf(Certificates::MakeCa(), "eve", {PeerRole::kOperator});
    CHECK_THAT(ask(folder, fleet.control_address()),
               Catch::Contains("does not pass " + folder + "/ca.crt"));
  }
  SECTION("another CA, which only the server does not know") {
    const std::string folder =
        c.AddOf(Certificates::MakeCa(), "eve", {PeerRole::kOperator}, -60, 3600, false);
    // The folder's own check would find this. So the files are those of a client without it.
    TlsFiles files{.ca = Text(folder + "/ca.crt"),
                   .certificate = Text(folder + "/tls.crt"),
                   .key = Text(folder + "/tls.key")};
    const Status why =
        ExplainTls({.address = fleet.control_address(), .files = &files, .folder = folder});
    CHECK_THAT(why.message(), Catch::Contains("refuses " + folder + "/tls.crt") &&
                                  Catch::Contains("certificates of CN = test CA"));
  }
  SECTION("a token where none is taken") {
    CHECK_THAT(ask(c.AddToken("bob", "s3cret"), fleet.control_address()),
               Catch::Contains("wants a certificate"));
  }
}

TEST_CASE("a client that does not know the server's role is warned, not served", "[tls]") {
  Fleet fleet;
  // The server of this port has a trainer's certificate, as a thief of one would.
  GrpcServerOptions options;
  options.security.tls = Open(fleet.certificates.Add("thief", {PeerRole::kTrainer}));
  const auto dispatcher = std::make_shared<test::TestDispatcher>();
  const auto control = *GrpcServer::Start(options, std::shared_ptr<DispatcherEndpoint>(dispatcher));
  const auto status =
      MakeGrpcConnector({.tls = Open(fleet.certificates.Add("carol", {PeerRole::kOperator}))})
          ->GetStatus("127.0.0.1:" + std::to_string(control->port()), 5);
  CHECK_THAT(status.status().message(),
             Catch::Contains("proves the role trainer, expected dispatcher"));
  control->Shutdown(std::chrono::seconds(0));
}

TEST_CASE("a server takes a new certificate without a restart, and calls go on", "[tls]") {
  Fleet fleet;
  const auto client = Open(fleet.certificates.Add("carol", {PeerRole::kOperator}));
  const auto first = MakeGrpcConnector({.tls = client});
  REQUIRE(first->GetStatus(fleet.control_address(), 5).ok());
  const auto renewed =
      fleet.certificates.Add("serve-2", {PeerRole::kDispatcher, PeerRole::kWorker}, -60, 7200);
  for (const char* file : {"/tls.crt", "/tls.key"}) {
    std::filesystem::copy_file(renewed + file, fleet.serve + file,
                               std::filesystem::copy_options::overwrite_existing);
  }
  fleet.clock->Advance(std::chrono::seconds(2));
  CHECK(first->GetStatus(fleet.control_address(), 5).ok());
  CHECK(MakeGrpcConnector({.tls = client})->GetStatus(fleet.control_address(), 5).ok());
  // Garbage leaves it in force.
  test::WriteText(fleet.serve + "/tls.crt", "garbage");
  fleet.clock->Advance(std::chrono::seconds(2));
  CHECK(MakeGrpcConnector({.tls = client})->GetStatus(fleet.control_address(), 5).ok());
}

}  // namespace
}  // namespace millrace
