#include "server/plugin/process/fork_server.h"

#include <array>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/base/json_text.h"

namespace millrace {
namespace {

// A fork, or the end of a process that is gone, takes milliseconds.
constexpr Duration kForkTimeout = std::chrono::seconds(60);
constexpr Duration kReapTimeout = std::chrono::seconds(10);

}  // namespace

ForkServer::ForkServer(ForkServerOptions options, Launcher& launcher, OutputReader& reader,
                       std::shared_ptr<const Clock> clock)
    : options_(std::move(options)),
      launcher_(launcher),
      reader_(reader),
      clock_(std::move(clock)) {}

ForkServer::~ForkServer() = default;

Result<OutputReader::Added> ForkServer::MakeOutput(std::shared_ptr<std::atomic<pid_t>> process) {
  return reader_.Add([on_line = options_.on_line, process](std::string_view line) {
    if (on_line) on_line(process->load(), line);
  });
}

ChannelWait ForkServer::WaitFor(const ChildProcess& process, int stop) const {
  ChannelWait wait;
  wait.process = process.pidfd();
  wait.stop = stop;
  wait.on_tick = [this, notes = WaitNotes(options_.on_wait, clock_, "its import")]() mutable {
    notes.Tick();
    if (notes.waited() <= options_.start_timeout) return OkStatus();
    return DeadlineExceeded(fmt::format("the import takes more than {:g} s (start_timeout)",
                                        ToSeconds(options_.start_timeout)));
  };
  return wait;
}

Result<std::unique_ptr<ChildProcess>> ForkServer::StartProcess(int stop) {
  Forked forked;
  {
    MutexLock lock(mutex_);
    if (forks_) {
      MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> first, MakeForkServer(stop));
      if (first != nullptr) return first;
      MILLRACE_ASSIGN_OR_RETURN(forked, Fork());
    }
  }
  if (forked.process < 0) {
    MILLRACE_ASSIGN_OR_RETURN(Imported imported, Import(false, stop));
    return std::move(imported.process);
  }
  return ChildProcess::Own(
      forked.process, std::move(forked.control), forked.output, reader_,
      [this, by = forked.by](pid_t process) { return ReapForked(process, by); });
}

Result<std::unique_ptr<ChildProcess>> ForkServer::MakeForkServer(int stop) {
  if (process_ != nullptr && process_->HasEnded()) SetProcess(nullptr);
  if (process_ != nullptr) return std::unique_ptr<ChildProcess>();
  // The mutex is held during the import, so that only one process imports.
  MILLRACE_ASSIGN_OR_RETURN(Imported imported, Import(true, stop));
  imported_ = imported.message;
  forks_ = imported_.threads == 1;
  if (!forks_) return std::move(imported.process);
  SetProcess(std::move(imported.process));
  return std::unique_ptr<ChildProcess>();
}

void ForkServer::SetProcess(std::unique_ptr<ChildProcess> process) {
  process_id_ = process == nullptr ? 0 : process->id();
  if (process != nullptr) ++number_;
  process_ = std::move(process);
}

Result<ForkServer::Imported> ForkServer::Import(bool fork_server, int stop) {
  MILLRACE_ASSIGN_OR_RETURN(Channel::Pair control, Channel::MakePair());
  const auto id = std::make_shared<std::atomic<pid_t>>(0);
  MILLRACE_ASSIGN_OR_RETURN(OutputReader::Added output, MakeOutput(id));
  ProgramStart program;
  program.program = options_.python;
  program.arguments = {options_.python, options_.program.string(), fmt::format("{}", ::getpid()),
                       options_.plugin};
  program.environment = options_.environment;
  program.control = control.there.get();
  program.output = output.there.get();
  const Result<pid_t> started = launcher_.Start(program);
  if (!started.ok()) {
    reader_.Remove(output.output);
    return started.status();
  }
  id->store(*started);
  output.there.Close();
  control.there.Close();
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<ChildProcess> process,
      ChildProcess::Own(*started, std::move(control.here), output.output, reader_, ReapOwnChild));

  const std::string start =
      fmt::format(R"({{"plugin": {}, "folder": {}, "original": {}, "fork_server": {}}})",
                  JsonText(options_.plugin), JsonText(options_.folder.string()),
                  JsonText(options_.original.string()), fork_server);
  const ChannelWait wait = WaitFor(*process, stop);
  Status sent = process->channel().Send(start, {}, wait);
  Result<std::string> answer = sent.ok() ? process->channel().Receive(wait) : sent;
  if (answer.status().code() == StatusCode::kUnavailable) {
    const std::string end = process->EndAfterClose().ToString();
    return FailedPrecondition(fmt::format("{} ended {} while it imported the module\n{}",
                                          options_.python, end, process->LastOutput()));
  }
  if (answer.status().code() == StatusCode::kDeadlineExceeded) {
    process->EndWithTraces();
    return DeadlineExceeded(answer.status().message() + "\n" + process->LastOutput());
  }
  if (!answer.ok()) return answer.status();
  MILLRACE_ASSIGN_OR_RETURN(ImportedMessage message, ReadImported(*answer));
  return Imported{std::move(process), std::move(message)};
}

Result<ForkServer::Forked> ForkServer::Fork() {
  MILLRACE_ASSIGN_OR_RETURN(Channel::Pair control, Channel::MakePair());
  const auto id = std::make_shared<std::atomic<pid_t>>(0);
  MILLRACE_ASSIGN_OR_RETURN(OutputReader::Added output, MakeOutput(id));
  const std::array<int, 2> files{control.there.get(), output.there.get()};
  // It cannot be stopped: all processes would end with the fork_server.
  ChannelWait wait;
  wait.process = process_->pidfd();
  wait.on_tick = [this, begin = clock_->Now()] {
    return clock_->Now() - begin <= kForkTimeout ? OkStatus() : DeadlineExceeded("a fork hangs");
  };
  Status sent = process_->channel().Send(R"({"fork": true})", files, wait);
  Result<std::string> answer = sent.ok() ? process_->channel().Receive(wait) : sent;
  Result<std::int32_t> forked = answer.ok() ? ReadForked(*answer) : answer.status();
  if (!forked.ok()) {
    reader_.Remove(output.output);
    // Whether it has forked is not known; what it has forked dies with it.
    const bool is_gone = forked.status().code() == StatusCode::kUnavailable;
    const std::string end = is_gone ? process_->EndAfterClose().ToString() : "";
    SetProcess(nullptr);
    if (!is_gone) return forked.status();
    return Unavailable(fmt::format("the process that forks the others ended {}", end));
  }
  id->store(*forked);
  return Forked{*forked, number_, std::move(control.here), output.output};
}

ProcessEnd ForkServer::ReapForked(pid_t process, std::uint64_t by) {
  MutexLock lock(mutex_);
  if (process_ != nullptr && number_ == by && !process_->HasEnded()) {
    ChannelWait wait;
    wait.process = process_->pidfd();
    wait.on_tick = [this, begin = clock_->Now()] {
      return clock_->Now() - begin <= kReapTimeout ? OkStatus() : DeadlineExceeded("");
    };
    Channel& channel = process_->channel();
    const Status sent = channel.Send(fmt::format(R"({{"reap": {}}})", process), {}, wait);
    const Result<std::string> answer = sent.ok() ? channel.Receive(wait) : sent;
    const Result<std::int32_t> status = answer.ok() ? ReadReaped(*answer) : answer.status();
    if (status.ok()) return EndOfStatus(*status);
    SetProcess(nullptr);  // its answers can no longer be told apart
  }
  // Without the fork server the processes become the first process's, which is this one in a
  // container.
  int status = 0;
  return ::waitpid(process, &status, WNOHANG) == process ? EndOfStatus(status) : ProcessEnd{};
}

ImportedMessage ForkServer::imported() const {
  MutexLock lock(mutex_);
  return imported_;
}

}  // namespace millrace
