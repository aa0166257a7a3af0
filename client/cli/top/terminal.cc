#include "client/cli/top/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace millrace::cli {
namespace {

constexpr std::string_view kTake = "\033[?1049h\033[?25l";  // alternate screen, no cursor
constexpr std::string_view kGive = "\033[0m\033[?25h\033[?1049l";

bool WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd out{STDOUT_FILENO, POLLOUT, 0};
      if (poll(&out, 1, 1000) <= 0) return false;
      continue;
    }
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

bool Terminal::Usable() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && kind != nullptr && *kind != '\0' &&
         std::string_view(kind) != "dumb";
}

void Terminal::Take() {
  MutexLock lock(mutex_);
  if (taken_ || given_) return;
  taken_ = true;
  if (isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    // Ctrl-C stays: it is a way out that gives the terminal back. Ctrl-Z and Ctrl-\ do not, so they
    // are off.
    keys.c_cc[VSUSP] = keys.c_cc[VQUIT] = _POSIX_VDISABLE;
    keys_ = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
  }
  WriteAll(kTake);
}

void Terminal::Give() {
  MutexLock lock(mutex_);
  if (given_) return;
  given_ = true;
  if (!taken_) return;
  WriteAll(kGive);
  if (keys_) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

TerminalSize Terminal::size() const {
  winsize window{};
  TerminalSize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) {
    if (window.ws_col > 0) size.columns = window.ws_col;
    if (window.ws_row > 0) size.lines = window.ws_row;
  }
  return size;
}

bool Terminal::Draw(const std::vector<std::string>& lines) {
  std::string out = "\033[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\r\n";
    out += "\033[2K" + lines[i];
  }
  // Clears the rest of a longer frame that was drawn before.
  if (lines.size() < size().lines) out += "\r\n\033[J";
  MutexLock lock(mutex_);
  if (!taken_ || given_) return true;
  return WriteAll(out);
}

std::optional<char> Terminal::ReadKey(std::chrono::milliseconds patience) const {
  if (!keys_) {
    std::this_thread::sleep_for(patience);
    return std::nullopt;
  }
  pollfd in{STDIN_FILENO, POLLIN, 0};
  if (poll(&in, 1, static_cast<int>(patience.count())) <= 0) return std::nullopt;
  char key = 0;
  return read(STDIN_FILENO, &key, 1) == 1 ? key : '\0';
}

}  // namespace millrace::cli
