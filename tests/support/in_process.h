// A network inside one process, so that one test can run a whole cluster. It has the same rules as
// the network over gRPC, and makes faults on demand. The thread sanitizer runs over this network,
// because Debian's gRPC is not built for it.
//
// Thread-safe. Streams may outlive the endpoints of the network, but not the network itself.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/system/mutex.h"
#include "common/transport/strand.h"
#include "common/transport/stream.h"

namespace millrace {

/// One stream of an in-process network, seen from the network.
class InProcessLink {
 public:
  virtual ~InProcessLink() = default;
  virtual void Break(const Status& why) = 0;
  virtual void SetPaused(bool paused) = 0;
};

class InProcessNetwork {
 public:
  explicit InProcessNetwork(int threads = 4);
  ~InProcessNetwork();
  InProcessNetwork(const InProcessNetwork&) = delete;
  InProcessNetwork& operator=(const InProcessNetwork&) = delete;

  void AddDispatcher(const std::string& address, std::shared_ptr<DispatcherEndpoint> endpoint);
  void AddWorker(const std::string& address, std::shared_ptr<WorkerEndpoint> endpoint);

  /// Makes a process look killed to the others: nothing listens at `address` any more, and its
  /// streams break in both roles. The streams that it opened are those under the name `who`
  /// (MakeConnector).
  void Kill(const std::string& address);
  /// Makes a process look stopped, or its cable cut. Streams with `address` at either end stay open
  /// but carry nothing until they are resumed.
  void SetPaused(const std::string& address, bool paused);

  /// The network as the process at `from` sees it. The network has to outlive the connector.
  std::shared_ptr<Connector> MakeConnector(const std::string& from);

 private:
  friend class InProcessConnector;

  struct LinkEntry {
    std::string from;
    std::string to;
    std::weak_ptr<InProcessLink> link;
  };

  template <class Up, class Down, class DownIn, class Accept>
  std::shared_ptr<Stream<Up>> Open(const std::string& from, const std::string& to,
                                   std::shared_ptr<StreamHandler<DownIn>> handler, Accept accept);
  std::shared_ptr<DispatcherEndpoint> FindDispatcher(const std::string& address);
  std::shared_ptr<WorkerEndpoint> FindWorker(const std::string& address);

  Executor executor_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<DispatcherEndpoint>> dispatchers_
      MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<WorkerEndpoint>> workers_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<LinkEntry> links_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, bool> paused_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
