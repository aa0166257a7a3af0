#include "server/plugin/process/output_reader.h"

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/system/errno_status.h"

namespace millrace {
namespace {

constexpr int kOutputTickMilliseconds = 1000;
constexpr std::size_t kMaxDrained = std::size_t{1} << 20;

Status Watch(int poll, int file) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = file;
  if (::epoll_ctl(poll, EPOLL_CTL_ADD, file, &event) != 0) {
    return ErrnoStatus("a plugin's output cannot be watched", errno);
  }
  return OkStatus();
}

}  // namespace

ProcessOutput::ProcessOutput(FileDescriptor pipe, OutputLines::OnLine on_line,
                             std::shared_ptr<const Clock> clock)
    : pipe_(std::move(pipe)), clock_(std::move(clock)), lines_(std::move(on_line)) {}

bool ProcessOutput::Drain() {
  MutexLock lock(mutex_);
  return DrainLocked();
}

bool ProcessOutput::DrainLocked() {
  if (finished_) return false;
  std::vector<char> buffer(std::size_t{64} << 10);
  for (std::size_t drained = 0; drained < kMaxDrained;) {
    const ssize_t n = ::read(pipe_.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    lines_.Add({buffer.data(), static_cast<std::size_t>(n)}, clock_->Now());
    drained += static_cast<std::size_t>(n);
  }
  return true;
}

void ProcessOutput::Tick() {
  MutexLock lock(mutex_);
  if (!finished_) lines_.Tick(clock_->Now());
}

std::string ProcessOutput::LastOutput() {
  MutexLock lock(mutex_);
  DrainLocked();
  return lines_.LastOutput();
}

void ProcessOutput::Finish() {
  MutexLock lock(mutex_);
  if (finished_) return;
  DrainLocked();
  lines_.Finish(clock_->Now());
  finished_ = true;
}

Result<std::unique_ptr<OutputReader>> OutputReader::Start(std::shared_ptr<const Clock> clock) {
  FileDescriptor poll(::epoll_create1(EPOLL_CLOEXEC));
  if (poll.get() < 0) return ErrnoStatus("the output of plugins cannot be read", errno);
  std::unique_ptr<OutputReader> reader(new OutputReader(std::move(poll), std::move(clock)));
  MILLRACE_RETURN_IF_ERROR(Watch(reader->poll_.get(), reader->bell_.file()));
  reader->thread_ = std::thread([raw = reader.get()] { raw->Run(); });
  return reader;
}

OutputReader::OutputReader(FileDescriptor poll, std::shared_ptr<const Clock> clock)
    : poll_(std::move(poll)), clock_(std::move(clock)) {}

OutputReader::~OutputReader() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  bell_.Ring();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  for (const auto& entry : outputs_) entry.second->Finish();
}

Result<OutputReader::Added> OutputReader::Add(OutputLines::OnLine on_line) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("no pipe for a plugin's output", errno);
  Added added;
  FileDescriptor here(ends[0]);
  added.there = FileDescriptor(ends[1]);
  // Only this end: a process that writes to a full pipe waits.
  ::fcntl(here.get(), F_SETFL, O_NONBLOCK);
  added.output = std::make_shared<ProcessOutput>(std::move(here), std::move(on_line), clock_);
  MutexLock lock(mutex_);
  MILLRACE_RETURN_IF_ERROR(Watch(poll_.get(), added.output->file()));
  outputs_.emplace(added.output->file(), added.output);
  return added;
}

void OutputReader::Remove(const std::shared_ptr<ProcessOutput>& output) {
  {
    MutexLock lock(mutex_);
    if (outputs_.erase(output->file()) > 0) {
      ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, output->file(), nullptr);
    }
  }
  output->Finish();
}

void OutputReader::Run() {
  std::array<epoll_event, 16> events;
  while (true) {
    const int n = ::epoll_wait(poll_.get(), events.data(), events.size(), kOutputTickMilliseconds);
    std::vector<std::shared_ptr<ProcessOutput>> all;
    std::vector<std::shared_ptr<ProcessOutput>> ready;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      for (const auto& entry : outputs_) all.push_back(entry.second);
      for (int i = 0; i < n; ++i) {
        const auto found = outputs_.find(events[static_cast<std::size_t>(i)].data.fd);
        if (found != outputs_.end()) ready.push_back(found->second);
      }
    }
    for (const auto& output : ready) {
      if (output->Drain()) continue;
      // All who could write are gone. The output stays known until it is removed.
      MutexLock lock(mutex_);
      if (outputs_.erase(output->file()) > 0) {
        ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, output->file(), nullptr);
      }
    }
    for (const auto& output : all) output->Tick();
  }
}

}  // namespace millrace
