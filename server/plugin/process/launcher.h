// Starts programs, on a thread of its own.
//
// The kernel kills a plugin's processes when the thread that started them is gone
// (PR_SET_PDEATHSIG). So that thread has to live as long as they may.
//
// Thread-safe. It has to outlive every process that it starts.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "common/base/result.h"
#include "common/system/mutex.h"

namespace millrace {

/// A program, with its arguments, environment and files.
struct ProgramStart {
  std::string program;                   // a path
  std::vector<std::string> arguments;    // the first one is the program's own name
  std::vector<std::string> environment;  // NAME=VALUE
  int control = -1;                      // becomes file 3; stays the caller's here
  int output = -1;                       // becomes files 1 and 2; stays the caller's here
};

class Launcher {
 public:
  Launcher();
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// Starts the program in a session of its own, with all signals at their defaults, without
  /// standard input, and without any other file of this process. NotFound and PermissionDenied
  /// name the program.
  Result<pid_t> Start(const ProgramStart& program);

 private:
  struct Task {
    const ProgramStart* program;
    pid_t process = -1;
    int error = 0;
    bool done = false;
  };

  void Run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<Task*> tasks_ MILLRACE_GUARDED_BY(mutex_);
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millrace
