// Decides who may see the page and the status that it shows.
//
// Without TLS names are not proved, so the page is for the users of the daemon's own host that it
// serves anyway (docs/guides/security.md), unless an option opens it to everybody. With TLS it is
// for operators and viewers.
//
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "common/access/access_policy.h"
#include "common/base/result.h"
#include "common/security/local_users.h"
#include "server/web/web_request.h"

namespace millrace {

struct WebAccessOptions {
  bool open = false;                     // whether everybody may see the page, without TLS
  std::shared_ptr<AccessPolicy> policy;  // null: no TLS
  LocalUsers users;                      // who may see it over loopback
  /// The user at the other end of a connection over loopback.
  std::function<Result<uid_t>(const WebRequest&)> user_of;
};

class WebAccess {
 public:
  explicit WebAccess(WebAccessOptions options);

  /// Ok if the peer may see the page. Unauthenticated if a token would help. PermissionDenied says
  /// in one sentence which right is missing.
  Status MayWatch(const WebRequest& request) const;
  bool takes_tokens() const;

 private:
  Status MayWatchByName(const WebRequest& request) const;
  Status MayWatchHere(const WebRequest& request) const;

  const WebAccessOptions options_;
};

}  // namespace millrace
