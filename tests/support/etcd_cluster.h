// Runs real etcd processes on free loopback ports. They end with the test.
//
// Thread-compatible.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace grpc {
class ChannelCredentials;
}

namespace millrace::test {

class EtcdCluster {
 public:
  /// Starts `members` processes and waits until they have a leader. Skips the test if etcd is not
  /// installed. `quota_bytes`: limit of the database; 0: etcd's own limit. `tls`: a folder
  /// with a certificate for 127.0.0.1; empty: no TLS. `client_certificates`: clients need one of
  /// the same CA.
  explicit EtcdCluster(int members = 1, long quota_bytes = 0, std::string tls = "",
                       bool client_certificates = false);
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  /// The address of each member, as host:port.
  std::vector<std::string> endpoints() const;
  int size() const { return static_cast<int>(members_.size()); }

  void Kill(int member);
  /// Starts a killed member again, with its data on disk.
  void Start(int member);
  void Pause(int member);
  void Resume(int member);
  /// The number of the member that leads the cluster.
  int Leader() const;
  /// Makes a user with all rights, and lets nobody in who does not log in.
  void EnableUsers(const std::string& name, const std::string& password) const;
  /// Waits until a quorum answers. With users enabled, a refusal is an answer.
  void WaitUntilReady() const;

 private:
  struct Member {
    int client_port = 0;
    int peer_port = 0;
    pid_t pid = 0;
  };

  std::string ClientUrl(int port) const {
    return (tls_.empty() ? "http://127.0.0.1:" : "https://127.0.0.1:") + std::to_string(port);
  }
  std::shared_ptr<grpc::ChannelCredentials> Credentials() const;
  std::string Url(int port) const { return "http://127.0.0.1:" + std::to_string(port); }
  std::string Log(int member) const;

  std::filesystem::path folder_;
  long quota_bytes_;
  std::string tls_;
  bool client_certificates_;
  std::vector<Member> members_;
};

}  // namespace millrace::test
