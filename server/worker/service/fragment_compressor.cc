#include "server/worker/service/fragment_compressor.h"

#include <chrono>
#include <utility>

namespace millrace {
namespace {

/// Copies the compressed bytes, which are few, so that the memory of a fragment has its own size.
CompressedFragment CopyOf(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const std::span<const std::byte> data = *copy;
  return {data, std::move(copy)};
}

}  // namespace

void FragmentCompressor::Add(Job job) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  jobs_.push_back(std::move(job));
  if (jobs_.size() > idle_ && threads_.size() < most_threads_) {
    threads_.emplace_back([this] { Run(); });
  } else {
    added_.NotifyOne();
  }
}

void FragmentCompressor::Stop() {
  std::vector<std::thread> threads;
  std::deque<Job> forgotten;  // destroyed outside the lock
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads = std::exchange(threads_, {});
    forgotten = std::exchange(jobs_, {});
  }
  added_.NotifyAll();
  for (std::thread& thread : threads) thread.join();
}

double FragmentCompressor::seconds() const {
  MutexLock lock(mutex_);
  return seconds_;
}

void FragmentCompressor::Run() {
  Compressor compressor;
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (jobs_.empty()) {
      ++idle_;
      added_.Wait(mutex_);
      --idle_;
      continue;
    }
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.Unlock();
    const auto began = std::chrono::steady_clock::now();
    CompressedFragment fragment = CopyOf(compressor.Compress(job.compression, job.bytes));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    job.done(std::move(fragment));
    job = {};
    lock.Lock();
    seconds_ += took.count();
  }
}

}  // namespace millrace
