// The worker's end of streams through shared memory. It has a socket without a name in the file
// system. Consumers of this host ask for batches over it, and learn their places.
//
// Thread-safe. All handlers are called on the server's own thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/security/local_users.h"
#include "common/system/mutex.h"
#include "common/transport/shm/framed_socket.h"
#include "common/transport/shm/shared_arena.h"
#include "common/transport/shm/shm_key.h"
#include "common/transport/stream.h"

namespace millrace {

class ShmServer {
 public:
  /// Batches in `arena` are read in place. Others are sent through the socket. Only processes of
  /// `users` that know the key are served: they can read all that is in the arena.
  static Result<std::unique_ptr<ShmServer>> Start(std::shared_ptr<WorkerEndpoint> endpoint,
                                                  std::shared_ptr<const SharedArena> arena,
                                                  const LocalUsers& users,
                                                  std::shared_ptr<Logger> log);
  /// Ends all streams with Unavailable.
  ~ShmServer();
  ShmServer(const ShmServer&) = delete;
  ShmServer& operator=(const ShmServer&) = delete;

  /// Where consumers find the socket, as the text of a ShmAddress. It has the key, so only admitted
  /// consumers may read it.
  std::string address() const { return ToString(address_); }

 private:
  class Call;

  ShmServer(std::shared_ptr<WorkerEndpoint> endpoint, std::shared_ptr<const SharedArena> arena,
            const LocalUsers& users, std::shared_ptr<Logger> log, int listener, ShmAddress address);
  void Run();
  /// False if the process can open no more files.
  bool Accept();

  const std::shared_ptr<WorkerEndpoint> endpoint_;
  const std::shared_ptr<const SharedArena> arena_;
  const LocalUsers users_;
  const std::shared_ptr<Logger> log_;
  const int listener_;
  const ShmAddress address_;
  const std::shared_ptr<Doorbell> doorbell_;
  std::vector<std::shared_ptr<Call>> calls_;  // only used by the server's thread
  Mutex mutex_;
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millrace
