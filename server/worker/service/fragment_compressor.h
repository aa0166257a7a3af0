// Compresses fragments of batches for the streams of a worker. It has threads of its own, so that
// neither the threads that build nor the network's threads wait for it. They are started when they
// are needed.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "common/compression/compression.h"
#include "common/system/mutex.h"

namespace millrace {

/// A fragment of a batch, compressed. Empty if it is better sent as it is.
struct CompressedFragment {
  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;  // keeps `data` alive
};

class FragmentCompressor {
 public:
  struct Job {
    Compression compression = Compression::kOff;
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // keeps `bytes` alive
    std::function<void(CompressedFragment)> done;
  };

  /// `most_threads`: at least 1.
  explicit FragmentCompressor(int most_threads)
      : most_threads_(static_cast<std::size_t>(most_threads)) {}
  ~FragmentCompressor() { Stop(); }

  /// Calls `done` later, on a thread of its own. Does nothing after Stop.
  void Add(Job job);
  /// Waits for the jobs that are under way and forgets the others. Idempotent. REQUIRES: the caller
  /// holds nothing that a `done` waits for.
  void Stop();

  /// Seconds that threads have compressed so far.
  double seconds() const;

 private:
  void Run();

  const std::size_t most_threads_;
  mutable Mutex mutex_;
  CondVar added_;
  std::deque<Job> jobs_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t idle_ MILLRACE_GUARDED_BY(mutex_) = 0;  // threads that wait for a job
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  double seconds_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
