#include "common/transport/grpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string_view>
#include <utility>

namespace millrace {
namespace {

struct Watch {
  std::function<void(const std::string&)> line;
  std::function<void(const std::string&)> handshake;
};

// gRPC takes only a plain function, and its threads call it for as long as the process lives.
Watch* g_watch = nullptr;

void OnLogLine(gpr_log_func_args* args) {
  // gRPC's ssl_transport_security.cc logs this text, followed by OpenSSL's.
  constexpr std::string_view kFailed = "Handshake failed with ";
  const std::string_view text = args->message;
  if (!text.starts_with(kFailed)) return g_watch->line(std::string(text));
  const std::size_t colon = text.rfind("::");
  std::string why(colon == std::string_view::npos ? text : text.substr(colon + 2));
  if (why.ends_with('.')) why.pop_back();
  g_watch->handshake(why);
}

}  // namespace

void WatchGrpcLog(std::function<void(const std::string& text)> line,
                  std::function<void(const std::string& why)> handshake) {
  g_watch = new Watch{std::move(line), std::move(handshake)};
  gpr_set_log_function(&OnLogLine);
}

}  // namespace millrace
