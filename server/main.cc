// `millraced`: the daemon. Subcommands dispatcher, worker and serve (both in one process), and
// backup, which copies a dispatcher's state.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <fmt/core.h>

#include "common/base/log.h"
#include "common/command_line/command_line.h"
#include "common/system/clock.h"
#include "common/system/host.h"
#include "common/system/level_filter.h"
#include "common/system/log_limit.h"
#include "common/system/malloc.h"
#include "common/system/mutex.h"
#include "common/system/repeat_filter.h"
#include "common/system/stderr_logger.h"
#include "common/system/ticker.h"
#include "common/transport/grpc/grpc_log.h"
#include "server/catalog/product_kinds.h"
#include "server/daemon/config_file.h"
#include "server/daemon/daemon.h"
#include "server/daemon/fatal_handler.h"
#include "server/daemon/option_flags.h"
#include "server/daemon/options.h"
#include "server/daemon/service_manager.h"
#include "server/daemon/shutdown_limit.h"
#include "server/daemon/start_limit.h"
#include "server/files/sigbus_guard.h"
#include "server/state/sqlite/sqlite_backup.h"

namespace millrace {
namespace {

/// How often a daemon looks whether the process that started it still runs.
constexpr auto kLookForParent = std::chrono::milliseconds(200);

struct BackupArguments {
  bool chosen = false;
  std::string state;
  std::string to;
};

/// The arguments of the command line.
struct Arguments {
  Role role = Role::kServe;
  bool chosen = false;
  std::string config;
  OptionFlags flags;
  bool print_config = false;
  std::string port_file;
  std::optional<std::uint32_t> stop_with_parent;  // id of the process that started this one
  BackupArguments backup;
};

void AddRole(CommandLine& program, Role role, const std::string& help, Arguments& arguments) {
  CommandLine& command = program.AddCommand(std::string(RoleName(role)), help, [role, &arguments] {
    arguments.role = role;
    arguments.chosen = true;
  });
  command.AddOption("--config", &arguments.config, "YAML file with the options below, '_' for '-'");
  AddOptionFlags(command, role, arguments.flags);
  command.AddFlag("--print-config", arguments.print_config, "print the effective options and exit");
  command.AddOption("--port-file", &arguments.port_file,
                    "write the address to this file once the daemon listens");
  command
      .AddOption("--stop-with-parent", &arguments.stop_with_parent,
                 "stop as after SIGTERM when the process that started this one, which has this id, "
                 "ends, whatever becomes of it")
      .TypeName("PID");
  command.SetFooter("Examples:\n  millraced " + std::string(RoleName(role)) +
                    (role == Role::kWorker
                         ? " --dataset stdlib=/data/stdlib --dispatcher 10.0.0.1:7700\n"
                         : " --dataset stdlib=/data/stdlib\n"));
}

void AddBackup(CommandLine& program, BackupArguments& arguments) {
  CommandLine& command = program.AddCommand(
      "backup", "Copy a dispatcher's state file, whether the dispatcher runs or not",
      [&arguments] { arguments.chosen = true; });
  command.AddOption("--state", &arguments.state,
                    "folder of the embedded state store [" + DefaultStateFolder() + "]");
  command.AddOption("FILE", &arguments.to, "the backup; must not be there yet").Required();
  command.SetFooter(
      "To go back to a backup, put it into an empty state folder as state.db.\n"
      "Example:\n  millraced backup --state /var/lib/millrace /backups/millrace-2027-01-31.db\n");
}

Result<DaemonOptions> OptionsOf(const Arguments& arguments, const HostLimits& host) {
  MILLRACE_ASSIGN_OR_RETURN(const OptionTexts flags, arguments.flags.Texts());
  return EffectiveOptions(arguments.role, arguments.config, flags, host, ProductKinds());
}

/// Complete or not at all, so that whoever waits for the file never reads half an address.
Status WritePortFile(const std::string& path, const std::string& address) {
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary);
  out << address << "\n";
  out.close();
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) {
    return PermissionDenied("cannot write the port file " + path);
  }
  return OkStatus();
}

/// Sends SIGTERM to this process when `parent` is no longer its parent, and so has ended. Nothing
/// that the parent holds could tell: its own children may hold that longer. PR_SET_PDEATHSIG would
/// tell when the thread ends that started this process.
void StopWithParent(pid_t parent) {
  std::thread([parent] {
    while (getppid() == parent) std::this_thread::sleep_for(kLookForParent);
    kill(getpid(), SIGTERM);
  }).detach();
}

/// Raises the limit of open files as far as it may be.
void RaiseOpenFiles() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

/// Why the daemon cannot go on: the first reason, from any thread. Then it stops as after SIGTERM.
class Failure {
 public:
  void Set(const Status& why) {
    {
      MutexLock lock(mutex_);
      if (!why_.ok()) return;
      why_ = why;
    }
    kill(getpid(), SIGTERM);
  }
  Status Get() {
    MutexLock lock(mutex_);
    return why_;
  }

 private:
  Mutex mutex_;
  Status why_ MILLRACE_GUARDED_BY(mutex_);
};

int Fail(const Status& status) {
  fmt::print(stderr, "millraced: {}\n", status.message());
  switch (status.code()) {
    case StatusCode::kDataLoss:
      return 3;
    case StatusCode::kInternal:
    case StatusCode::kUnknown:
      return 1;
    default:
      return 2;
  }
}

/// A service manager that does not hear changes nothing for those who are served.
void Tell(LevelFilter& log, const std::string& lines) {
  if (const Status told = TellServiceManager(lines); !told.ok()) {
    log.Warning("the service manager was not told", {{"why", told}});
  }
}

/// Reads the configuration again and takes over what can change while the daemon runs: `options` is
/// what is in force, before and after. One with an error changes nothing.
void Reload(const Arguments& arguments, const HostLimits& host, DaemonOptions& options,
            Daemon& daemon, LevelFilter& log) {
  if (arguments.config.empty()) {
    log.Warning("nothing to reload: the daemon was started without --config");
    return;
  }
  const Result<DaemonOptions> read = OptionsOf(arguments, host);
  if (!read.ok()) {
    log.Error("configuration not reloaded; the one before stays in force",
              {{"config", arguments.config}, {"why", read.status()}});
    return;
  }
  for (const std::string& name : ChangedOptions(options, *read)) {
    if (name == "log_level" || name == "in_memory") continue;
    log.Warning("option changes with the next start only", {{"option", name}});
  }
  options.log_level = read->log_level;
  options.datasets = read->datasets;
  options.in_memory = read->in_memory;
  log.SetLevel(options.log_level);
  daemon.ReloadDatasets(options);
  log.Info("configuration reloaded",
           {{"config", arguments.config}, {"datasets", options.datasets.size()}});
}

int Run(const Arguments& arguments) {
  const HostLimits host = ReadHostLimits();
  Result<DaemonOptions> options = OptionsOf(arguments, host);
  if (!options.ok()) return Fail(options.status());
  if (arguments.print_config) {
    std::fputs(PrintConfig(*options).c_str(), stdout);
    return 0;
  }

  // Signals are waited for, not handled: block them before any thread exists.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigset_t waited_for = signals;
  sigaddset(&waited_for, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &waited_for, nullptr);
  signal(SIGPIPE, SIG_IGN);
  InstallSigbusGuard();
  LimitStart();
  if (arguments.stop_with_parent) {
    StopWithParent(static_cast<pid_t>(*arguments.stop_with_parent));
  }

  const auto repeats = std::make_shared<RepeatFilter>(
      MakeStderrLogger(std::string(RoleName(options->role)), LogLevel::kDebug, options->log_json),
      std::make_shared<SystemClock>());
  const Ticker counts(std::chrono::seconds(1), [repeats] { repeats->Tick(); });
  const auto log = std::make_shared<LevelFilter>(repeats, options->log_level);
  log->Info("starting", {{"version", MILLRACE_VERSION},
                         {"name", options->name},
                         {"threads", options->threads},
                         {"cpus_from", host.cpus_from},
                         {"memory_limit", options->memory_limit},
                         {"memory_from", host.memory_from}});
  const auto failure = std::make_shared<Failure>();
  RaiseOpenFiles();
  const auto errors = std::make_shared<LogLimit>();
  const auto handshakes = std::make_shared<LogLimit>();
  WatchGrpcLog(
      [log, errors](const std::string& text) {
        if (const auto unsaid = errors->MayLog(SystemClock().Now())) {
          log->Error("grpc", {{"message", text}, {"unsaid", *unsaid}});
        }
      },
      [log, handshakes](const std::string& why) {
        if (const auto unsaid = handshakes->MayLog(SystemClock().Now())) {
          log->Warning("TLS handshake failed", {{"why", why}, {"unsaid", *unsaid}});
        }
      });
  Result<std::unique_ptr<Daemon>> daemon =
      Daemon::Start(*options, log, [failure](const Status& why) { failure->Set(why); });
  if (!daemon.ok()) return Fail(daemon.status());
  if (!arguments.port_file.empty()) {
    if (const Status s = WritePortFile(arguments.port_file, (*daemon)->address()); !s.ok()) {
      return Fail(s);
    }
  }
  EndStartLimit();
  Tell(*log, "READY=1\nSTATUS=listening on " + (*daemon)->address());

  int signal_number = 0;
  while (sigwait(&waited_for, &signal_number) == 0 && signal_number == SIGHUP) {
    Reload(arguments, host, *options, **daemon, *log);
  }
  log->Info("stopping", {{"signal", signal_number == SIGTERM ? "SIGTERM" : "SIGINT"},
                         {"grace", options->grace}});
  Tell(*log, StoppingNotice(options->grace));
  const ShutdownLimit limit(signals, options->grace, log);
  (*daemon)->DrainAndStop();
  daemon->reset();
  const Status failed = failure->Get();
  return failed.ok() ? 0 : Fail(failed);
}

int RunBackup(const BackupArguments& arguments) {
  const Result<BackupSummary> done =
      BackUpState(arguments.state.empty() ? DefaultStateFolder() : arguments.state, arguments.to);
  if (!done.ok()) return Fail(done.status());
  std::printf("%s: term %llu, %llu job records, %llu bytes\n", arguments.to.c_str(),
              static_cast<unsigned long long>(done->term),
              static_cast<unsigned long long>(done->jobs),
              static_cast<unsigned long long>(done->bytes));
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  // What a daemon writes (state, indexes, caches) is its user's alone.
  umask(0077);
  millrace::KeepFreedMemory();
  millrace::InstallFatalHandler();
  millrace::Arguments arguments;
  millrace::CommandLine program("Millrace's daemon: prepares training batches outside the trainer.",
                                "millraced");
  program.SetVersion(MILLRACE_VERSION);
  program.RequireCommand();
  millrace::AddRole(program, millrace::Role::kServe, "Run a dispatcher and a worker in one process",
                    arguments);
  millrace::AddRole(program, millrace::Role::kDispatcher, "Admit trainers and name their workers",
                    arguments);
  millrace::AddRole(program, millrace::Role::kWorker, "Build and send batches", arguments);
  millrace::AddBackup(program, arguments.backup);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (arguments.backup.chosen) return millrace::RunBackup(arguments.backup);
  return millrace::Run(arguments);
}
