// Runs real etcd processes on free loopback ports. They end with the test.
//
// Thread-compatible.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::test {

class EtcdCluster {
 public:
  /// Starts `members` processes and waits until they have a leader. Skips the test if etcd is not
  /// installed. `quota_bytes`: limit of the database; 0: etcd's own limit.
  explicit EtcdCluster(int members = 1, long quota_bytes = 0);
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
  /// Waits until a quorum answers.
  void WaitUntilReady() const;

 private:
  struct Member {
    int client_port = 0;
    int peer_port = 0;
    pid_t pid = 0;
  };

  std::string Url(int port) const { return "http://127.0.0.1:" + std::to_string(port); }
  std::string Log(int member) const;

  std::filesystem::path folder_;
  long quota_bytes_;
  std::vector<Member> members_;
};

}  // namespace millrace::test
