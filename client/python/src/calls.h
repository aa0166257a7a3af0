// Calls that run without the GIL. Nothing that a call uses is freed while it runs. The interpreter
// does not end before each call has taken the GIL again: if a thread took it later, Python would
// unwind that thread through C++, which ends the process.
//
// The GIL guards everything here. A thread that waits gives it up meanwhile.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <nanobind/nanobind.h>

namespace millrace::python {

/// True if another thread is ending the interpreter. The calling thread is then a daemon thread,
/// and has to end without a message.
bool InterpreterEndsElsewhere();

/// Counts one call without the GIL. It lives from before the GIL is given up until the GIL is held
/// again. Raises Cancelled if the interpreter is ending. REQUIRES: the GIL is held.
class Busy {
 public:
  Busy();
  ~Busy();
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
};

/// Runs `work` without the GIL.
template <class Work>
auto WithoutGil(Work work) {
  const Busy busy;
  const nanobind::gil_scoped_release release;
  return work();
}

/// The calls that run inside one reader.
class Calls {
 public:
  /// `cancel` makes the calls inside return soon. `end` frees what they use. It runs once, without
  /// the GIL, when the reader is closed and the last call has left. Both may use the reader, whose
  /// destructor calls Close. Raises Cancelled if the interpreter is ending.
  static std::shared_ptr<Calls> Make(std::function<void()> cancel, std::function<void()> end);

  /// Runs `work` inside the reader, without the GIL. Raises Cancelled if it is closed.
  template <class Work>
  auto Run(Work work) {
    const Inside inside(*this);
    return WithoutGil(std::move(work));
  }

  /// Raises Cancelled if the reader is closed.
  void RequireOpen() const;

  /// Lets no call in any more, cancels the calls inside, and waits until `end` has run. A signal
  /// handler may close the reader that it interrupted. It does not wait then: the last call to
  /// leave runs `end`. In a forked process nothing is ended, because it all belongs to the parent.
  void Close();

  /// Closes all readers, and waits until no call runs without the GIL. Called when the interpreter
  /// ends.
  static void CloseAll();

 private:
  class Inside {
   public:
    explicit Inside(Calls& calls);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Calls& calls_;
  };

  Calls(std::function<void()> cancel, std::function<void()> end);
  void BeginToClose();
  void EndWhenLeft();

  const std::function<void()> cancel_;
  const std::function<void()> end_;
  const pid_t process_;
  std::vector<std::thread::id> inside_;
  bool closed_ = false;
  bool ending_ = false;
  bool ended_ = false;
};

/// Registers CloseAll to be called when the interpreter ends.
void BindCalls();

}  // namespace millrace::python
