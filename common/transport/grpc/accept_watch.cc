#include "common/transport/grpc/accept_watch.h"

#include <grpc/support/log.h>

#include <string_view>
#include <utility>

namespace millrace {
namespace {

struct Watch {
  std::function<void(const std::string&)> line;
  std::function<void(const std::string&)> failed;
};

// gRPC takes only a plain function, and its threads call it for as long as the process lives.
Watch* g_watch = nullptr;

void OnLogLine(gpr_log_func_args* args) {
  // gRPC's tcp_server_posix.cc logs this text, and then stops to use its listening socket.
  constexpr std::string_view kFailed = "Failed accept4: ";
  const std::string_view text = args->message;
  g_watch->line(std::string(text));
  if (text.starts_with(kFailed)) g_watch->failed(std::string(text.substr(kFailed.size())));
}

}  // namespace

void WatchAccepts(std::function<void(const std::string& text)> line,
                  std::function<void(const std::string& why)> failed) {
  g_watch = new Watch{std::move(line), std::move(failed)};
  gpr_set_log_function(&OnLogLine);
}

}  // namespace millrace
