// Starts daemons as processes of their own, for benchmarks that measure from outside.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>

namespace millrace::bench {

/// A temporary folder, deleted together with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "millrace-bench-XXXXXX").string();
    if (const char* made = mkdtemp(name.data())) path_ = made;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Settings that all daemons of one benchmark share.
struct Daemons {
  std::string millraced;         // path of the program
  std::string dataset;           // folder of the dataset "data"
  std::filesystem::path folder;  // for files with addresses, and logs
};

/// A daemon of one role, killed together with this object.
class Daemon {
 public:
  /// `arguments` begin with the role. Waits until the daemon listens, at most 30 s.
  Daemon(const Daemons& daemons, const std::string& name, std::vector<std::string> arguments) {
    const std::filesystem::path port_file = daemons.folder / (name + ".address");
    const std::vector<std::string> common = {"--dataset", "data=" + daemons.dataset, "--port-file",
                                             port_file.string()};
    arguments.insert(arguments.end(), common.begin(), common.end());
    arguments.insert(arguments.begin(), daemons.millraced);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string log = daemons.folder / (name + ".log");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (std::freopen(log.c_str(), "w", stderr) == nullptr) _exit(126);
      execv(argv[0], argv.data());
      _exit(127);
    }
    // The waits are short because they are part of the measured time.
    for (int i = 0; i < 60'000 && address_.empty(); ++i) {
      std::ifstream(port_file) >> address_;
      if (address_.empty()) usleep(500);
    }
  }
  ~Daemon() { Kill(); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  const std::string& address() const { return address_; }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  std::string address_;
};

/// The logs of all daemons, for a person who wants to know why a benchmark failed.
inline std::string DaemonLogs(const std::filesystem::path& folder) {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".log") continue;
    std::ifstream log(entry.path());
    text += fmt::format("--- {}\n{}\n", entry.path().filename().string(),
                        std::string(std::istreambuf_iterator<char>(log), {}));
  }
  return text;
}

}  // namespace millrace::bench
