#include "tests/support/etcd_cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "etcd/rpc.grpc.pb.h"
#include "tests/support/patience.h"
#include "tests/support/skip.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

std::string FindEtcd() {
  for (const char* path : {"/usr/bin/etcd", "/usr/local/bin/etcd"}) {
    if (access(path, X_OK) == 0) return path;
  }
  SkipTest("no etcd here: deploy/install-deps installs it");
}

/// A port that nobody uses at the moment.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool ok = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0) close(fd);
  if (!ok) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

/// Makes a folder for the members' data. It is in memory if there is enough, because etcd syncs
/// every write. Each member takes 128 MiB at once.
fs::path MakeFolder() {
  (void)FindEtcd();  // comes first, so that a skipped test leaves nothing behind
  const char* of_run = std::getenv("MILLRACE_TEST_MEMORY");
  const fs::path in_memory = of_run != nullptr ? of_run : "/dev/shm";
  struct statvfs memory {};
  const bool enough = statvfs(in_memory.c_str(), &memory) == 0 &&
                      memory.f_bavail * memory.f_frsize > (std::uint64_t{2} << 30);
  std::string name =
      ((enough ? in_memory : fs::temp_directory_path()) / "millrace-etcd-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  return name;
}

}  // namespace

EtcdCluster::EtcdCluster(int members, long quota_bytes, std::string tls, bool client_certificates)
    : folder_(MakeFolder()),
      quota_bytes_(quota_bytes),
      tls_(std::move(tls)),
      client_certificates_(client_certificates),
      members_(static_cast<std::size_t>(members)) {
  for (Member& member : members_) {
    member.client_port = FreePort();
    member.peer_port = FreePort();
  }
  for (int i = 0; i < members; ++i) Start(i);
  WaitUntilReady();
}

EtcdCluster::~EtcdCluster() {
  for (int i = 0; i < size(); ++i) Kill(i);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::vector<std::string> EtcdCluster::endpoints() const {
  std::vector<std::string> endpoints;
  for (const Member& member : members_) {
    endpoints.push_back("127.0.0.1:" + std::to_string(member.client_port));
  }
  return endpoints;
}

void EtcdCluster::Start(int member) {
  static const std::string etcd = FindEtcd();
  Member& started = members_.at(static_cast<std::size_t>(member));
  std::string cluster;
  for (int i = 0; i < size(); ++i) {
    cluster += (i == 0 ? "m" : ",m") + std::to_string(i) + "=" +
               Url(members_.at(static_cast<std::size_t>(i)).peer_port);
  }
  const std::string name = "m" + std::to_string(member);
  std::vector<std::string> arguments = {etcd,
                                        "--name=" + name,
                                        "--data-dir=" + (folder_ / name).string(),
                                        "--listen-client-urls=" + ClientUrl(started.client_port),
                                        "--advertise-client-urls=" + ClientUrl(started.client_port),
                                        "--listen-peer-urls=" + Url(started.peer_port),
                                        "--initial-advertise-peer-urls=" + Url(started.peer_port),
                                        "--initial-cluster=" + cluster,
                                        "--log-level=error"};
  if (!tls_.empty()) {
    arguments.insert(arguments.end(),
                     {"--cert-file=" + tls_ + "/tls.crt", "--key-file=" + tls_ + "/tls.key"});
    if (client_certificates_) {
      arguments.insert(arguments.end(),
                       {"--client-cert-auth", "--trusted-ca-file=" + tls_ + "/ca.crt"});
    }
  }
  if (size() == 1) {
    // A single member waits for no other, so its timeouts can be short. A lease cannot be shorter
    // than the election timeout (see Election), so short ones also allow short leases.
    arguments.insert(arguments.end(), {"--heartbeat-interval=20", "--election-timeout=200"});
  }
  if (quota_bytes_ > 0) {
    arguments.push_back("--quota-backend-bytes=" + std::to_string(quota_bytes_));
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string log = Log(member);
  const pid_t parent = getpid();
  started.pid = fork();
  if (started.pid < 0) throw std::runtime_error("cannot fork");
  if (started.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || getppid() != parent) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
}

std::shared_ptr<grpc::ChannelCredentials> EtcdCluster::Credentials() const {
  if (tls_.empty()) return grpc::InsecureChannelCredentials();
  const auto text = [this](const char* file) {
    std::ifstream in(tls_ + "/" + file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = text("ca.crt");
  options.pem_cert_chain = text("tls.crt");
  options.pem_private_key = text("tls.key");
  return grpc::SslCredentials(options);
}

void EtcdCluster::Kill(int member) {
  pid_t& pid = members_.at(static_cast<std::size_t>(member)).pid;
  if (pid <= 0) return;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  pid = 0;
}

void EtcdCluster::Pause(int member) {
  kill(members_.at(static_cast<std::size_t>(member)).pid, SIGSTOP);
}

void EtcdCluster::Resume(int member) {
  kill(members_.at(static_cast<std::size_t>(member)).pid, SIGCONT);
}

std::string EtcdCluster::Log(int member) const {
  return (folder_ / ("m" + std::to_string(member) + ".log")).string();
}

int EtcdCluster::Leader() const {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < size(); ++i) {
      const Member& member = members_.at(static_cast<std::size_t>(i));
      if (member.pid <= 0) continue;
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
      const auto channel =
          grpc::CreateChannel("127.0.0.1:" + std::to_string(member.client_port), Credentials());
      etcdserverpb::StatusResponse status;
      const bool ok = etcdserverpb::Maintenance::NewStub(channel)
                          ->Status(&context, etcdserverpb::StatusRequest(), &status)
                          .ok();
      if (ok && status.leader() != 0 && status.leader() == status.header().member_id()) return i;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (std::chrono::steady_clock::now() < end);
  throw std::runtime_error("etcd has no leader");
}

void EtcdCluster::EnableUsers(const std::string& name, const std::string& password) const {
  grpc::GenericStub stub(grpc::CreateChannel(endpoints().front(), Credentials()));
  // The requests have two texts at most, in the fields that a login has them in.
  const auto call = [&](const std::string& method, const std::string& first,
                        const std::string& second) {
    etcdserverpb::AuthenticateRequest texts;
    texts.set_name(first);
    texts.set_password(second);
    const grpc::Slice slice(texts.SerializeAsString());
    grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::ClientContext context;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, "/etcdserverpb.Auth/" + method, {}, &request, &response,
                   [&done](const grpc::Status& status) { done.set_value(status); });
    const grpc::Status status = done.get_future().get();
    if (!status.ok()) throw std::runtime_error("etcd, " + method + ": " + status.error_message());
  };
  call("UserAdd", name, password);
  call("RoleAdd", "root", "");
  call("UserGrantRole", name, "root");
  call("AuthEnable", "", "");
}

void EtcdCluster::WaitUntilReady() const {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (int i = 0; i < size(); ++i) {
    const Member& member = members_.at(static_cast<std::size_t>(i));
    if (member.pid <= 0) continue;
    grpc::ChannelArguments arguments;  // otherwise gRPC tries again only after a second
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
    const auto channel = grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(member.client_port), Credentials(), arguments);
    const auto kv = etcdserverpb::KV::NewStub(channel);
    while (true) {
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
      etcdserverpb::RangeRequest request;
      request.set_key("ready");
      etcdserverpb::RangeResponse response;
      const grpc::Status status = kv->Range(&context, request, &response);
      if (status.ok() || status.error_message().find("user name is empty") != std::string::npos) {
        break;
      }
      if (std::chrono::steady_clock::now() > end) {
        std::ifstream log(Log(i));
        throw std::runtime_error("etcd does not start: " +
                                 std::string(std::istreambuf_iterator<char>(log), {}));
      }
    }
  }
}

}  // namespace millrace::test
