// A plugin in a temporary folder, and the pool that runs it.
//
// Thread-compatible.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/system/mutex.h"
#include "server/plugin/plugin_pool.h"
#include "tests/support/fake_clock.h"

namespace millrace::test {

/// A python with numpy: $MILLRACE_NUMPY_PYTHON, or the first of Debian's and the one in PATH that
/// has it. Skips the test if there is none.
std::string NumpyPythonOrSkip();

class PluginFixture {
 public:
  /// The module `plugin` has this text, which is indented as a whole; numpy is np.
  explicit PluginFixture(std::string_view module);
  ~PluginFixture();
  PluginFixture(const PluginFixture&) = delete;
  PluginFixture& operator=(const PluginFixture&) = delete;

  /// To be changed before Start. The object is the source plugin:Source.
  PluginPoolOptions& options() { return options_; }
  /// Makes the object a function of one output.
  void UseFunction(const std::string& name, std::vector<PluginTensor> inputs,
                   std::vector<PluginTensor> outputs);
  /// Writes the module, as the constructor does.
  void WriteModule(std::string_view module);
  void WriteFile(const std::string& name, std::string_view content);
  const std::filesystem::path& folder() const { return options_.plugin.path; }
  const std::filesystem::path& copies() const { return options_.copies; }

  /// REQUIREs that the pool starts.
  std::shared_ptr<PluginPool> Start();
  /// The message of the error with which the pool does not start.
  std::string StartError();
  /// The lines that the plugin has printed so far.
  std::vector<std::string> Lines() const;
  /// Waits until the plugin has printed such a line.
  void WaitForLine(std::string_view phrase) const;

 private:
  std::filesystem::path root_;
  PluginPoolOptions options_;
  mutable Mutex mutex_;
  mutable CondVar printed_;
  std::vector<std::string> lines_ MILLRACE_GUARDED_BY(mutex_);
};

PluginTensor MakeTensor(const std::string& name, std::string_view type);

/// The values of a row as text: "1 2.5".
std::string RowText(const PluginReply& reply, const std::vector<PluginTensor>& tensors,
                    std::size_t tensor, std::size_t row);

/// Whether a process runs: it is there and is no zombie.
bool IsRunning(pid_t process);
/// Waits until it does not.
bool WaitUntilGone(pid_t process);
/// Lets time pass until it does not.
void PassTimeUntilGone(FakeClock& clock, pid_t process);

}  // namespace millrace::test
