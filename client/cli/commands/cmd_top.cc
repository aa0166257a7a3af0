// `millrace top`: shows what a running service does, live.

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/commands/connection.h"
#include "client/cli/numbers.h"
#include "client/cli/stop_signals.h"
#include "client/cli/top/terminal.h"
#include "client/cli/top/top_frame.h"
#include "common/system/errno_status.h"
#include "common/system/mutex.h"

namespace millrace::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Time between two checks of the keyboard and of the window's size.
constexpr std::chrono::milliseconds kLook(50);

struct TopArguments {
  Connection connection;
  std::string sort = "name";
  double period_seconds = 2;
  bool once = false;
};

TopSort SortOf(const std::string& name) {
  for (const TopSort sort : {TopSort::kName, TopSort::kRate}) {
    if (TopSortName(sort) == name) return sort;
  }
  return TopSort::kWaited;
}

/// Passes statuses from the thread that watches to the thread that draws. Thread-safe.
class Mailbox {
 public:
  void Put(v1::ServiceStatus status) {
    MutexLock lock(mutex_);
    status_ = std::move(status);
    error_.clear();
    came_ = SteadyClock::now();
  }
  void PutError(std::string error) {
    MutexLock lock(mutex_);
    error_ = std::move(error);
  }
  std::optional<v1::ServiceStatus> Take() {
    MutexLock lock(mutex_);
    return std::exchange(status_, std::nullopt);
  }
  /// Says what is wrong. Empty if statuses come as they should.
  std::string Notice(double period_seconds) {
    MutexLock lock(mutex_);
    const double silent = std::chrono::duration<double>(SteadyClock::now() - came_).count();
    if (!error_.empty()) return fmt::format("{}; tried again, {:.0f} s by now", error_, silent);
    if (silent < 3 * period_seconds + 2) return {};
    return fmt::format("no answer for {:.0f} s", silent);
  }

 private:
  Mutex mutex_;
  std::optional<v1::ServiceStatus> status_ MILLRACE_GUARDED_BY(mutex_);
  std::string error_ MILLRACE_GUARDED_BY(mutex_);
  SteadyClock::time_point came_ MILLRACE_GUARDED_BY(mutex_) = SteadyClock::now();
};

// --- plain text -------------------------------------------------------------------------------

Status Print(const std::vector<TopLine>& frame) {
  for (const TopLine& line : frame) std::printf("%s\n", line.text.c_str());
  std::printf("\n");
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return OkStatus();
  return ErrnoStatus("standard output cannot be written", errno);
}

/// Prints a frame every period, beginning with the second status. With `once` it prints only one.
Status PrintFrames(const TopArguments& options) {
  std::stop_source stop;
  const StopSignals signals([&stop] { stop.request_stop(); });
  TopView view;
  view.sort = SortOf(options.sort);
  TopHistory history;
  Status printed;
  const auto on_status = [&](const v1::ServiceStatus& status) {
    history.Add(status);
    if (stop.stop_requested() || !history.MayShow(options.once)) return;
    printed = Print(TopFrame(history.before(), history.now(), view));
    if (options.once || !printed.ok()) stop.request_stop();
  };
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Connector> connector,
                            Connect(options.connection));
  const auto on_error = [&](const Status& error) {
    if (options.once || !MayHelpToRetry(error)) return false;
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return true;
  };
  MILLRACE_RETURN_IF_ERROR(WatchOn(*connector, options.connection.address, options.period_seconds,
                                   on_status, on_error, stop.get_token()));
  return printed;
}

// --- a screen ---------------------------------------------------------------------------------

std::string Styled(const TopLine& line, bool colour) {
  using Style = TopLine::Style;
  if (!colour || line.style == Style::kPlain) return line.text;
  const char* const on = line.style == Style::kTitle     ? "\033[1m"
                         : line.style == Style::kHeading ? "\033[7m"
                         : line.style == Style::kAlarm   ? "\033[33m"
                                                         : "\033[2m";
  return on + line.text + "\033[0m";
}

/// https://no-color.org
bool ColourWanted() {
  const char* const no = std::getenv("NO_COLOR");
  return no == nullptr || *no == '\0';
}

/// Draws statuses as they come, until a key or a signal ends it.
class Screen {
 public:
  Screen(const TopArguments& options, Terminal& terminal, Mailbox& mailbox)
      : options_(options), terminal_(terminal), mailbox_(mailbox) {
    view_.sort = SortOf(options.sort);
  }

  Status Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      // A status that came during a pause is shown when the pause ends.
      if (auto status = view_.paused ? std::nullopt : mailbox_.Take()) {
        history_.Add(*std::move(status));
        changed_ = true;
      }
      const TerminalSize size = terminal_.size();
      std::string notice = mailbox_.Notice(options_.period_seconds);
      if (changed_ || size != size_ || notice != view_.notice) {
        size_ = size;
        view_.notice = std::move(notice);
        if (!Draw()) return Unavailable("the terminal is gone");
      }
      const std::optional<char> key = terminal_.ReadKey(kLook);
      if (key && !OnKey(*key)) break;
    }
    return OkStatus();
  }

 private:
  bool Draw() {
    changed_ = false;
    std::vector<std::string> lines;
    if (history_.empty()) {
      lines = {view_.notice.empty() ? "waiting for the dispatcher at " + options_.connection.address
                                    : view_.notice};
      lines[0].resize(std::min(lines[0].size(), size_.columns));
    } else {
      view_.width = size_.columns;
      view_.height = size_.lines > 1 ? size_.lines - 1 : 1;
      for (const TopLine& line : TopFrame(history_.before(), history_.now(), view_)) {
        lines.push_back(Styled(line, colour_));
      }
      if (size_.lines > 1) {
        const TopLine keys{"q quit   s sort   p pause", TopLine::Style::kFaint};
        while (lines.size() + 1 < size_.lines) lines.emplace_back();
        lines.push_back(size_.columns >= keys.text.size() ? Styled(keys, colour_) : std::string());
      }
    }
    return terminal_.Draw(lines);
  }

  /// Returns false if this key ends the program.
  bool OnKey(char key) {
    switch (key) {
      case 'q':
      case '\0':
      case '\004':  // Ctrl-D
        return false;
      case 's':
        view_.sort = NextSort(view_.sort);
        break;
      case 'p':
        view_.paused = !view_.paused;
        break;
      default:
        return true;
    }
    changed_ = true;
    return true;
  }

  const TopArguments& options_;
  Terminal& terminal_;
  Mailbox& mailbox_;
  const bool colour_ = ColourWanted();
  TopHistory history_;
  TopView view_;
  TerminalSize size_;
  bool changed_ = true;
};

Status ShowScreen(const TopArguments& options) {
  Terminal terminal;
  std::stop_source stop;
  // The first signal gives the terminal back. A second one ends the process at once.
  const StopSignals signals([&] {
    terminal.Give();
    stop.request_stop();
  });
  Mailbox mailbox;
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Connector> connector,
                            Connect(options.connection));
  std::jthread watch([&] {
    const auto on_status = [&](const v1::ServiceStatus& status) { mailbox.Put(status); };
    const auto on_error = [&](const Status& error) {
      mailbox.PutError(error.message());
      return true;
    };
    (void)WatchOn(*connector, options.connection.address, options.period_seconds, on_status,
                  on_error, stop.get_token());
  });
  terminal.Take();
  const Status shown = Screen(options, terminal, mailbox).Run(stop.get_token());
  terminal.Give();
  stop.request_stop();
  return shown;
}

}  // namespace

void AddTopCommand(Tool& tool) {
  const auto options = std::make_shared<TopArguments>();
  CommandLine& command = tool.Add(
      "top", "Watch workers, consumers and who waits for whom",
      "  millrace top --address 127.0.0.1:7700\n"
      "  millrace top --once --sort waited   # one frame as text\n"
      "Keys: q quits, s sorts by name, rate or waiting, p pauses. If standard output is no\n"
      "terminal, a frame comes every period as text. NO_COLOR turns colours off.\n",
      [options] {
        return options->once || !Terminal::Usable() ? PrintFrames(*options) : ShowScreen(*options);
      });
  AddConnection(command, options->connection);
  command.AddOption("--period", &options->period_seconds, "seconds between two looks")
      .Check(Seconds(0.1))
      .TypeName("SECONDS")
      .ShowDefault();
  command.AddOption("--sort", &options->sort, "what comes first: name, rate or waited")
      .OneOf({"name", "rate", "waited"})
      .ShowDefault();
  command.AddFlag("--once", options->once, "one frame, as soon as rates are known, then end");
}

}  // namespace millrace::cli
