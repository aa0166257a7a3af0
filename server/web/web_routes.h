// The routes of the HTTP port:
//
//   /metrics      for Prometheus; everybody who can connect
//   /             the page, with its files; see WebAccess
//   /status.json  the data of the page, as `millrace status --format json` prints it to a viewer
//
// Thread-safe, if its functions are.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "server/web/web_access.h"
#include "server/web/web_request.h"

namespace millrace {

struct WebContents {
  std::function<std::string()> metrics;
  /// The status as JSON. Errors are sent to the peer.
  std::function<Result<std::shared_ptr<const std::string>>()> status;
};

class WebRoutes {
 public:
  WebRoutes(WebContents contents, WebAccess access);

  WebResponse Answer(const WebRequest& request) const;

  /// Adds the safety headers of every answer, also of errors: no foreign content, no frames, no
  /// guessed types, no referrer.
  static void AddSafety(WebResponse& response);

 private:
  WebResponse Route(const WebRequest& request) const;
  WebResponse StatusJsonResponse() const;
  WebResponse Refusal(const Status& why) const;

  const WebContents contents_;
  const WebAccess access_;
};

/// An answer of one line of text.
WebResponse TextResponse(int code, const std::string& text);

}  // namespace millrace
