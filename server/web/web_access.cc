#include "server/web/web_access.h"

#include <string>
#include <utility>

#include "common/access/rights.h"
#include "common/base/addresses.h"

namespace millrace {
namespace {

/// The method whose rights are those of the page: it shows what that method tells.
constexpr const char* kMethod = "/millrace.v1.Dispatcher/WatchStatus";

/// `address` as the host of an address with a port.
std::string WithAnyPort(const std::string& address) {
  return address.find(':') == std::string::npos ? address + ":0" : "[" + address + "]:0";
}

/// Whether the header Host names this host by loopback. A page of somebody else that has its name
/// resolve to 127.0.0.1 sends that name here.
bool NamesLoopback(const std::string& host) {
  const bool has_port = ParseHostPort(host).has_value();
  return IsLoopback(has_port ? host : host + ":0");
}

}  // namespace

WebAccess::WebAccess(WebAccessOptions options) : options_(std::move(options)) {}

bool WebAccess::takes_tokens() const {
  return options_.policy != nullptr && options_.policy->takes_tokens();
}

Status WebAccess::MayWatch(const WebRequest& request) const {
  if (options_.policy != nullptr) return MayWatchByName(request);
  const bool loopback = IsLoopback(WithAnyPort(request.peer));
  if (loopback && !NamesLoopback(request.host)) {
    return PermissionDenied("the page is served here as localhost or 127.0.0.1, not as '" +
                            request.host + "'");
  }
  if (options_.open) return OkStatus();
  if (loopback) return MayWatchHere(request);
  return PermissionDenied(
      "the page is shown on the daemon's own host only: open it there, through `ssh -L`, or start "
      "the daemon with --metrics-tls (for operators and viewers) or --metrics-page (for everybody "
      "who can connect)");
}

Status WebAccess::MayWatchHere(const WebRequest& request) const {
  const Result<uid_t> user = options_.user_of(request);
  if (user.ok() && options_.users.May(*user)) return OkStatus();
  return PermissionDenied("the page is shown to " + options_.users.ToString() + ", and this is " +
                          (user.ok() ? UserText(*user) : "a user whom the kernel does not name") +
                          ": use --shared-memory-group GROUP, or --metrics-page for everybody");
}

Status WebAccess::MayWatchByName(const WebRequest& request) const {
  if (!request.shown.certificate && request.shown.token.empty()) {
    if (!takes_tokens()) {
      return PermissionDenied(
          "the page needs the certificate of an operator or a viewer: `millrace certs` makes them");
    }
    return Status(StatusCode::kUnauthenticated,
                  "the page needs the certificate or the token of an operator or a viewer: in a "
                  "browser, give the token as the password");
  }
  const Result<Identity> peer = options_.policy->Identify(request.shown);
  if (!peer.ok()) return peer.status();
  if (ReachOf(kMethod, *peer) >= Reach::kAllButPipelines) return OkStatus();
  return PermissionDenied(peer->ToString() +
                          " may not see the page: expected the role operator or viewer");
}

}  // namespace millrace
