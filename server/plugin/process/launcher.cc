#include "server/plugin/process/launcher.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include "common/system/errno_status.h"
#include "server/files/file_io.h"

namespace millrace {
namespace {

constexpr int kControl = 3;

/// The texts as posix_spawn takes them.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Returns an errno, or 0.
int Spawn(const ProgramStart& program, pid_t* process) {
  // Above every number that the program's files get, so that none is overwritten too early.
  const FileDescriptor control(::fcntl(program.control, F_DUPFD_CLOEXEC, kControl + 1));
  const FileDescriptor output(::fcntl(program.output, F_DUPFD_CLOEXEC, kControl + 1));
  if (control.get() < 0 || output.get() < 0) return errno;

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&files, control.get(), kControl);
  posix_spawn_file_actions_addclosefrom_np(&files, kControl + 1);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  const std::vector<char*> arguments = Pointers(program.arguments);
  const std::vector<char*> environment = Pointers(program.environment);
  const int error = posix_spawn(process, program.program.c_str(), &files, &attributes,
                                arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

Launcher::Launcher() : thread_([this] { Run(); }) {}

Launcher::~Launcher() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

Result<pid_t> Launcher::Start(const ProgramStart& program) {
  Task task{&program};
  MutexLock lock(mutex_);
  tasks_.push_back(&task);
  changed_.NotifyAll();
  while (!task.done) changed_.Wait(mutex_);
  if (task.error != 0) return ErrnoStatus(program.program + " cannot be started", task.error);
  return task.process;
}

void Launcher::Run() {
  MutexLock lock(mutex_);
  while (true) {
    while (tasks_.empty() && !stopping_) changed_.Wait(mutex_);
    if (tasks_.empty()) return;
    Task* const task = tasks_.front();
    tasks_.pop_front();
    lock.Unlock();
    pid_t process = -1;
    const int error = Spawn(*task->program, &process);
    lock.Lock();
    task->process = process;
    task->error = error;
    task->done = true;
    changed_.NotifyAll();
  }
}

}  // namespace millrace
