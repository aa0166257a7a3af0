// Calls without the GIL, so that what they use is not freed while they run, and the interpreter
// does not end while they would take the GIL again: a thread that does so then is unwound through
// C++, which ends the process.
//
// All of this is guarded by the GIL; who waits gives it up meanwhile.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <nanobind/nanobind.h>

namespace millrace::python {

/// Whether another thread ends the interpreter: this one, a daemon, is to end without a word.
bool InterpreterEndsElsewhere();

/// One call without the GIL, from before it is given up until it is held again. Raises Cancelled
/// when the interpreter ends. REQUIRES: the GIL is held.
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

/// The calls inside one reader.
class Calls {
 public:
  /// `cancel` makes the calls inside return soon. `end` frees what they use: once, without the GIL,
  /// when the reader is closed and the last of them has left. Both may use the reader, whose
  /// destructor calls Close. Raises Cancelled when the interpreter ends.
  static std::shared_ptr<Calls> Make(std::function<void()> cancel, std::function<void()> end);

  /// Runs `work` inside the reader, without the GIL. Raises Cancelled where it is closed.
  template <class Work>
  auto Run(Work work) {
    const Inside inside(*this);
    return WithoutGil(std::move(work));
  }

  /// Raises Cancelled where the reader is closed.
  void RequireOpen() const;

  /// Lets no call in any more, cancels those inside, and waits until `end` has run. A signal
  /// handler that closes the reader that it interrupts does not wait: the call does so when it
  /// leaves. In a process that was forked nothing is ended: what it has is its parent's.
  void Close();

  /// Closes all readers, and waits until no thread is without the GIL. When the interpreter ends.
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

/// Has CloseAll called when the interpreter ends.
void BindCalls();

}  // namespace millrace::python
