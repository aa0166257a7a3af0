#include "client/python/src/calls.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "client/python/src/errors.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// The state of the whole process. Never destroyed, because threads may outlive the program's end.
struct Process {
  std::vector<std::weak_ptr<Calls>> readers;
  int busy = 0;         // threads without the GIL that will take it again
  bool ending = false;  // the interpreter is ending
  std::thread::id ender;
  std::condition_variable_any changed;
};

Process& TheProcess() {
  static Process& process = *new Process;
  return process;
}

/// The GIL as a lock, for a condition variable.
class Gil {
 public:
  void lock() { PyEval_RestoreThread(state_); }
  void unlock() { state_ = PyEval_SaveThread(); }

 private:
  PyThreadState* state_ = nullptr;
};

template <class Condition>
void WaitUntil(Condition condition) {
  Gil gil;
  TheProcess().changed.wait(gil, condition);
}

void RequireInterpreter() {
  if (TheProcess().ending) Raise(Cancelled("the interpreter is ending: nothing is read any more"));
}

}  // namespace

bool InterpreterEndsElsewhere() {
  return TheProcess().ending && TheProcess().ender != std::this_thread::get_id();
}

Busy::Busy() {
  RequireInterpreter();
  ++TheProcess().busy;
}

Busy::~Busy() {
  --TheProcess().busy;
  TheProcess().changed.notify_all();
}

Calls::Calls(std::function<void()> cancel, std::function<void()> end)
    : cancel_(std::move(cancel)), end_(std::move(end)), process_(getpid()) {}

std::shared_ptr<Calls> Calls::Make(std::function<void()> cancel, std::function<void()> end) {
  RequireInterpreter();
  const std::shared_ptr<Calls> calls(new Calls(std::move(cancel), std::move(end)));
  auto& readers = TheProcess().readers;
  std::erase_if(readers, [](const std::weak_ptr<Calls>& reader) { return reader.expired(); });
  readers.push_back(calls);
  return calls;
}

void Calls::RequireOpen() const {
  if (closed_) Raise(Cancelled("the session is closed"));
}

Calls::Inside::Inside(Calls& calls) : calls_(calls) {
  calls_.RequireOpen();
  calls_.inside_.push_back(std::this_thread::get_id());
}

Calls::Inside::~Inside() {
  auto& inside = calls_.inside_;
  inside.erase(std::find(inside.begin(), inside.end(), std::this_thread::get_id()));
  calls_.EndWhenLeft();
}

void Calls::BeginToClose() {
  if (closed_) return;
  closed_ = true;
  if (getpid() == process_) cancel_();
}

void Calls::EndWhenLeft() {
  if (!closed_ || ending_ || !inside_.empty() || getpid() != process_) return;
  ending_ = true;
  Process& process = TheProcess();
  ++process.busy;
  {
    const nb::gil_scoped_release release;
    end_();
  }
  --process.busy;
  ended_ = true;
  process.changed.notify_all();
}

void Calls::Close() {
  BeginToClose();
  if (getpid() != process_) return;
  EndWhenLeft();
  if (ended_ || std::count(inside_.begin(), inside_.end(), std::this_thread::get_id()) > 0) return;
  Process& process = TheProcess();
  ++process.busy;
  WaitUntil([this] { return ended_; });
  --process.busy;
  process.changed.notify_all();
}

void Calls::CloseAll() {
  Process& process = TheProcess();
  process.ending = true;
  process.ender = std::this_thread::get_id();
  std::vector<std::shared_ptr<Calls>> readers;
  for (const std::weak_ptr<Calls>& weak : process.readers) {
    if (std::shared_ptr<Calls> reader = weak.lock()) readers.push_back(std::move(reader));
  }
  for (const std::shared_ptr<Calls>& reader : readers) reader->BeginToClose();
  for (const std::shared_ptr<Calls>& reader : readers) reader->Close();
  // The count is below 0 if a signal handler forked in the middle of a call.
  WaitUntil([&process] { return process.busy <= 0; });
}

void BindCalls() {
  // A forked process does not have the threads of its parent.
  pthread_atfork(nullptr, nullptr, [] { TheProcess().busy = 0; });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&Calls::CloseAll));
}

}  // namespace millrace::python
