// Bytes of a connection to a real gRPC server of a dispatcher or a worker, in this process. They
// are any bytes, HTTP/2 frames with any content, or calls of our methods with any message. Some go
// to a dispatcher with TLS: in place of a handshake, or after one, with a certificate or without.
// Afterwards all servers still answer an honest call.
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>

#include "common/access/access_policy.h"
#include "common/base/hash.h"
#include "common/security/make_certificates.h"
#include "common/security/tls_folder.h"
#include "common/security/x509.h"
#include "common/transport/grpc/grpc_client.h"
#include "common/transport/grpc/grpc_server.h"
#include "tests/fuzz/events.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

namespace millrace::fuzz {
namespace {

enum Kind : std::uint8_t {
  kFrame0,         // to 9: a frame of type 0 to 9 with the right length; argument: flags and stream
  kRaw = 10,       // the bytes as they are
  kPreface,        // HTTP/2's preface and empty settings
  kCall,           // headers of a call of method bytes[0], on the argument's stream
  kAttachMessage,  // a whole message of a call on the argument's stream
  kWorkMessage,
  kWantsMessage,
  kStaticMessage,
  kStatusMessage,
  kWorker,     // the connection goes to the worker instead
  kHandshake,  // it goes to the dispatcher with TLS, whose handshake the bytes are to be
  kSecret,     // the same, after a handshake; argument: odd: with a certificate
  kKinds,
};

constexpr std::array kMethods = {
    "/millrace.v1.Dispatcher/Attach",        "/millrace.v1.Dispatcher/Work",
    "/millrace.v1.Dispatcher/GetStatus",     "/millrace.v1.Dispatcher/WatchStatus",
    "/millrace.v1.Dispatcher/DrainWorker",   "/millrace.v1.Dispatcher/EndJob",
    "/millrace.v1.Dispatcher/Trace",         "/millrace.v1.Worker/StreamBatches",
    "/millrace.v1.Dispatcher/UndrainWorker", "/millrace.v1.Worker/GetStatic",
    "/grpc.health.v1.Health/Check"};

/// Answers messages, with one answer under way at a time; closes the stream at an empty message.
template <class In, class Out>
class Echo final : public StreamHandler<In> {
 public:
  Echo(std::shared_ptr<Stream<Out>> stream, Out answer)
      : stream_(std::move(stream)), answer_(std::move(answer)) {}
  void OnMessage(In message) override {
    if (message.ByteSizeLong() == 0) return stream_->Close(InvalidArgument("an empty message"));
    if (!writing_.exchange(true)) stream_->Write(answer_);
  }
  void OnWriteDone() override { writing_ = false; }
  void OnClosed(const Status&) override {}

 private:
  const std::shared_ptr<Stream<Out>> stream_;
  const Out answer_;
  std::atomic<bool> writing_{false};
};

class FuzzedDispatcher final : public DispatcherEndpoint {
 public:
  std::shared_ptr<StreamHandler<v1::AttachRequest>> OnAttach(
      std::shared_ptr<Stream<v1::AttachResponse>> stream, const Peer&) override {
    return std::make_shared<Echo<v1::AttachRequest, v1::AttachResponse>>(std::move(stream),
                                                                         v1::AttachResponse());
  }
  std::shared_ptr<StreamHandler<v1::WorkRequest>> OnWork(
      std::shared_ptr<Stream<v1::WorkResponse>> stream, const Peer&) override {
    return std::make_shared<Echo<v1::WorkRequest, v1::WorkResponse>>(std::move(stream),
                                                                     v1::WorkResponse());
  }
  Result<v1::ServiceStatus> OnGetStatus(const Peer&) override {
    v1::ServiceStatus status;
    status.set_version("here");
    return status;
  }
  Result<v1::DrainWorkerResponse> OnDrainWorker(const v1::DrainWorkerRequest& request) override {
    return NotFound("no worker " + request.worker());
  }
  Result<v1::UndrainWorkerResponse> OnUndrainWorker(
      const v1::UndrainWorkerRequest& request) override {
    return NotFound("no worker " + request.worker());
  }
  Result<v1::EndJobResponse> OnEndJob(const v1::EndJobRequest& request, const Peer&) override {
    return NotFound("no job " + request.job());
  }
};

class FuzzedWorker final : public WorkerEndpoint {
 public:
  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer&) override {
    static const auto data = std::make_shared<const std::string>(1000, 'd');
    OutgoingFragment fragment;
    fragment.message.set_total_bytes(data->size());
    fragment.data = std::as_bytes(std::span(data->data(), data->size()));
    fragment.owner = data;
    return std::make_shared<Echo<v1::WantList, OutgoingFragment>>(std::move(stream),
                                                                  std::move(fragment));
  }
  Result<StaticBytes> OnGetStatic(const std::string& fingerprint, const Peer&) override {
    if (fingerprint != "known") return NotFound("plan " + fingerprint + " is not ready");
    return tables_;
  }
  const std::string& digest() const { return tables_.digest; }

 private:
  const std::shared_ptr<const std::string> bytes_ = std::make_shared<std::string>(3000, 's');
  const StaticBytes tables_{Xxh3(*bytes_).ToHex(), bytes_};
};

/// A folder with a certificate of every role, for both ends.
class Certificate {
 public:
  Certificate() {
    std::string path = "/tmp/millrace-fuzz-XXXXXX";
    Require(mkdtemp(path.data()) != nullptr, "a folder");
    const std::int64_t now = std::time(nullptr);
    const auto ca =
        MakeCa({.name = "fuzz", .roles = {}, .begin = now - 60, .end = now + 864'000}).value();
    const auto made = MakeCertificate(ca, {.name = "fuzz",
                                           .roles = {PeerRole::kDispatcher, PeerRole::kWorker,
                                                     PeerRole::kTrainer, PeerRole::kOperator},
                                           .begin = now - 60,
                                           .end = now + 864'000})
                          .value();
    std::ofstream(path + "/ca.crt") << ca.certificate;
    std::ofstream(path + "/tls.crt") << made.certificate;
    std::ofstream(path + "/tls.key") << made.key;
    folder_ = TlsFolder::Open({.folder = path}, std::make_shared<SystemClock>(), MakeNullLogger())
                  .value();
    // The files have been read. Nobody else needs them.
    for (const char* const file : {"/ca.crt", "/tls.crt", "/tls.key"}) {
      ::unlink((path + file).c_str());
    }
    ::rmdir(path.c_str());
  }
  const std::shared_ptr<TlsFolder>& folder() const { return folder_; }

 private:
  std::shared_ptr<TlsFolder> folder_;
};

/// Lets peers without a certificate through the handshake; none of them has a token.
class TokensToo final : public AccessPolicy {
 public:
  Result<Identity> Identify(const Shown& shown) override { return certificates_.Identify(shown); }
  bool takes_tokens() const override { return true; }

 private:
  CertificatePolicy certificates_;
};

/// A client's end of TLS over a socket.
class SecretSocket {
 public:
  SecretSocket(int socket, const TlsFiles& files, bool with_certificate)
      : context_(SSL_CTX_new(TLS_client_method())) {
    static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context_.get(), kHttp2, sizeof kHttp2);
    if (with_certificate) {
      SSL_CTX_use_certificate(context_.get(), ParseCertificates(files.certificate).front().get());
      SSL_CTX_use_PrivateKey(context_.get(), ParseKey(files.key).get());
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket);
    connected_ = SSL_connect(ssl_.get()) == 1;
  }
  void Exchange(std::string_view bytes) {
    if (!connected_ || bytes.empty()) return;
    if (SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) <= 0) return;
    char buffer[4096];
    for (int n = 0; n < 64 && SSL_read(ssl_.get(), buffer, sizeof buffer) > 0; ++n) {
    }
  }

 private:
  const std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, FreeWith<SSL_free>> ssl_;
  bool connected_ = false;
};

struct World {
  std::shared_ptr<FuzzedWorker> worker = std::make_shared<FuzzedWorker>();
  std::unique_ptr<GrpcServer> control =
      GrpcServer::Start({},
                        std::shared_ptr<DispatcherEndpoint>(std::make_shared<FuzzedDispatcher>()))
          .value();
  std::unique_ptr<GrpcServer> batches =
      GrpcServer::Start({}, std::shared_ptr<WorkerEndpoint>(worker)).value();
  std::shared_ptr<Connector> connector = MakeGrpcConnector({});
  Certificate certificate;
  std::unique_ptr<GrpcServer> secret =
      GrpcServer::Start(
          {.security = {.tls = certificate.folder(), .policy = std::make_shared<TokensToo>()}},
          std::shared_ptr<DispatcherEndpoint>(std::make_shared<FuzzedDispatcher>()))
          .value();
  std::shared_ptr<Connector> secret_connector = MakeGrpcConnector({.tls = certificate.folder()});

  ~World() {
    connector->WaitForStreams(Connector::kStreamsEndSeconds);
    control->Shutdown(std::chrono::seconds(0));
    batches->Shutdown(std::chrono::seconds(0));
  }
  static std::string Address(const GrpcServer& server) {
    return "127.0.0.1:" + std::to_string(server.port());
  }
};

std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  std::string_view payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame.append(payload);
}

std::uint32_t StreamOf(std::uint8_t argument) {
  return argument % 16 == 15 ? 0 : 2u * (argument % 16) + 1;
}
std::uint8_t FlagsOf(std::uint8_t argument) {
  const std::uint8_t bits = argument >> 4;
  return static_cast<std::uint8_t>((bits & 1) | (bits & 2) << 1 | (bits & 4) << 1 |
                                   (bits & 8) << 2);
}

std::string Header(std::string_view name, std::string_view value) {
  std::string header(1, '\0');  // HPACK: a literal that is not indexed
  header += static_cast<char>(name.size());
  header += name;
  header += static_cast<char>(value.size());
  return header.append(value);
}

std::string Call(std::string_view method) {
  return Header(":method", "POST") + Header(":scheme", "http") + Header(":path", method) +
         Header(":authority", "here") + Header("te", "trailers") +
         Header("content-type", "application/grpc");
}

std::string BytesOf(const Event& event) {
  const std::uint8_t kind = event.kind % kKinds;
  switch (kind) {
    case kRaw:
      return event.bytes;
    case kPreface:
      return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "");
    case kCall: {
      const std::size_t method =
          event.bytes.empty() ? 0 : static_cast<std::uint8_t>(event.bytes[0]) % kMethods.size();
      return Frame(1, 4, StreamOf(event.argument), Call(kMethods[method]));
    }
    case kAttachMessage:
    case kWorkMessage:
    case kWantsMessage:
    case kStaticMessage:
    case kStatusMessage: {
      std::string message(1, '\0');  // flag: not compressed
      for (const int shift : {24, 16, 8, 0}) {
        message += static_cast<char>(event.bytes.size() >> shift);
      }
      return Frame(0, FlagsOf(event.argument) & 1, StreamOf(event.argument), message + event.bytes);
    }
    case kWorker:
    case kHandshake:
    case kSecret:
      return "";
    default:
      return Frame(kind, FlagsOf(event.argument), StreamOf(event.argument), event.bytes);
  }
}

void SetPatience(int socket, int milliseconds) {
  const timeval patience{.tv_sec = 0, .tv_usec = milliseconds * 1000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void ReadAll(int socket) {
  char buffer[4096];
  // The limit is needed because some calls are answered for ever.
  for (int n = 0; n < 64 && ::recv(socket, buffer, sizeof(buffer), 0) > 0; ++n) {
  }
}

/// Writes all bytes and reads until the server is silent. Only then it shuts down its sending side,
/// because a server that hears this at once drops the messages before it. Then it reads until the
/// server closes the connection or is silent for longer.
void Exchange(int port, std::string_view bytes, const TlsFiles* files = nullptr,
              bool with_certificate = false) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Require(socket >= 0, "a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Require(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
          "the server takes connections");
  SetPatience(socket, 10);
  // The socket is closed by a reset, so that thousands of connections a second leave no sockets
  // behind.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  if (files != nullptr) {
    SetPatience(socket, 1000);  // for the handshake
    SecretSocket secret(socket, *files, with_certificate);
    SetPatience(socket, 10);
    secret.Exchange(bytes);
    ::close(socket);
    return;
  }
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  ReadAll(socket);
  ::shutdown(socket, SHUT_WR);
  SetPatience(socket, 100);
  ReadAll(socket);
  ::close(socket);
}

void ExpectHonestService(const World& world, Connector& connector) {
  const auto status = connector.GetStatus(World::Address(*world.control), 30);
  RequireOk(status.status(), "the dispatcher answers");
  Require(status->version() == "here", "the dispatcher answers right");
  const auto tables =
      connector.GetStatic(World::Address(*world.batches), "known", world.worker->digest(), 30, {});
  RequireOk(tables.status(), "the worker answers");
  const auto secret = world.secret_connector->GetStatus(World::Address(*world.secret), 30);
  RequireOk(secret.status(), "the dispatcher with TLS answers");
}

}  // namespace

std::unique_ptr<google::protobuf::Message> NewMessage(std::uint8_t kind) {
  switch (kind % kKinds) {
    case kAttachMessage:
      return std::make_unique<v1::AttachRequest>();
    case kWorkMessage:
      return std::make_unique<v1::WorkRequest>();
    case kWantsMessage:
      return std::make_unique<v1::WantList>();
    case kStaticMessage:
      return std::make_unique<v1::GetStaticRequest>();
    case kStatusMessage:
      return std::make_unique<v1::GetStatusRequest>();
    default:
      return nullptr;
  }
}

std::vector<std::string> Seeds() {
  constexpr std::uint8_t kEnd = 1 << 4;  // END_STREAM
  v1::AttachRequest attach;
  attach.mutable_hello()->set_job("j");
  v1::WorkRequest work;
  work.set_name("w");
  v1::WantList wants;
  wants.set_fingerprint("f");
  wants.add_runs()->set_steps(1);
  v1::GetStaticRequest tables;
  tables.set_fingerprint("known");
  tables.set_digest(FuzzedWorker().digest());
  tables.set_offset(10);
  v1::GetStatusRequest status;
  status.set_period_seconds(0.001);
  const auto call = [](std::uint8_t argument, char method) {
    return Event{kCall, argument, std::string(1, method)};
  };
  const Event preface{kPreface, 0, ""};
  return {
      WriteEvents({preface, call(0, 0), Message(kAttachMessage, 0, attach),
                   Message(kAttachMessage, kEnd, attach), call(1, 1),
                   Message(kWorkMessage, 1 | kEnd, work), call(2, 2),
                   Message(kStatusMessage, 2 | kEnd, status), call(3, 3),
                   Message(kStatusMessage, 3 | kEnd, status)}),
      WriteEvents({{kWorker, 0, ""},
                   preface,
                   call(0, 7),
                   Message(kWantsMessage, 0, wants),
                   Message(kWantsMessage, kEnd, wants),
                   call(1, 8),
                   Message(kStaticMessage, 1 | kEnd, tables)}),
      WriteEvents({preface,
                   call(0, 4),
                   Message(kStatusMessage, kEnd, status),
                   call(1, 9),
                   Message(kStatusMessage, 1 | kEnd, status),
                   {6, 15, "pingping"},
                   {3, 0, std::string(4, '\0')},
                   {8, 15, std::string("\0\0\1\0", 4)},
                   {4, 15, std::string("\0\4\0\0\0\1", 6)},
                   {7, 15, std::string(8, '\0')}}),
      WriteEvents({{kRaw, 0, "GET / HTTP/1.1\r\nHost: here\r\n\r\n"}}),
      WriteEvents({preface, {kRaw, 0, std::string(200, '\xff')}}),
      WriteEvents({{kHandshake, 0, ""}, {kRaw, 0, std::string("\x16\x03\x01\x00\x05hello", 10)}}),
      WriteEvents({{kSecret, 0, ""}, preface, call(0, 4), Message(kStatusMessage, kEnd, status)}),
      WriteEvents({{kSecret, 1, ""}, preface, call(0, 0), Message(kAttachMessage, 0, attach)}),
  };
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  // The world is never destroyed, because gRPC's own threads end in their own order.
  static fuzz::World& world = *new fuzz::World;
  static int runs = 0;
  bool to_worker = false;
  std::optional<fuzz::Event> tls;  // the last event that says so
  std::string bytes;
  for (const fuzz::Event& event : fuzz::ReadEvents(data, size)) {
    to_worker = to_worker || event.kind % fuzz::kKinds == fuzz::kWorker;
    const std::uint8_t kind = event.kind % fuzz::kKinds;
    if (kind == fuzz::kHandshake || kind == fuzz::kSecret) tls = event;
    bytes += fuzz::BytesOf(event);
  }
  if (tls) {
    const bool secret = tls->kind % fuzz::kKinds == fuzz::kSecret;
    const auto files = world.certificate.folder()->Current();
    fuzz::Exchange(world.secret->port(), bytes, secret ? files.get() : nullptr,
                   tls->argument % 2 == 1);
  } else {
    fuzz::Exchange(to_worker ? world.batches->port() : world.control->port(), bytes);
  }
  fuzz::ExpectHonestService(world, *world.connector);
  // Now and then a new connection is used too.
  if (++runs % 256 == 1) fuzz::ExpectHonestService(world, *MakeGrpcConnector({}));
  return 0;
}
