#include "server/web/web_routes.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/web/page_files.h"

namespace millrace {
namespace {

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

std::string TypeOf(std::string_view path) {
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

/// The file of the page at `path`; null if there is none.
const PageFile* FindFile(std::string_view path) {
  if (path == "/") path = "/index.html";
  const auto files = PageFiles();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const PageFile& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

int CodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kPermissionDenied:
      return 403;
    case StatusCode::kInternal:
      return 500;
    default:
      return 503;
  }
}

}  // namespace

WebResponse TextResponse(int code, const std::string& text) {
  return {.code = code, .body = std::make_shared<const std::string>(text + "\n")};
}

WebRoutes::WebRoutes(WebContents contents, WebAccess access)
    : contents_(std::move(contents)), access_(std::move(access)) {}

WebResponse WebRoutes::Answer(const WebRequest& request) const {
  WebResponse response = Route(request);
  AddSafety(response);
  return response;
}

void WebRoutes::AddSafety(WebResponse& response) {
  response.headers.insert(response.headers.end(), {{"Content-Security-Policy", kPolicy},
                                                   {"X-Content-Type-Options", "nosniff"},
                                                   {"Referrer-Policy", "no-referrer"},
                                                   {"Cross-Origin-Resource-Policy", "same-origin"},
                                                   {"Cache-Control", "no-store"}});
}

WebResponse WebRoutes::Route(const WebRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    WebResponse refused = TextResponse(405, "expected GET or HEAD, got " + request.method);
    refused.headers.emplace_back("Allow", "GET, HEAD");
    return refused;
  }
  if (request.path == "/metrics") {
    return {.type = "text/plain; version=0.0.4; charset=utf-8",
            .body = std::make_shared<const std::string>(contents_.metrics())};
  }
  const PageFile* const file = FindFile(request.path);
  const bool is_status = request.path == "/status.json";
  if (file == nullptr && !is_status) {
    return TextResponse(404, "not found: expected /, /status.json or /metrics");
  }
  if (const Status may = access_.MayWatch(request); !may.ok()) return Refusal(may);
  if (is_status) return StatusJsonResponse();
  return {.type = TypeOf(file->path), .body = std::make_shared<const std::string>(file->bytes)};
}

WebResponse WebRoutes::StatusJsonResponse() const {
  Result<std::shared_ptr<const std::string>> json = contents_.status();
  if (!json.ok()) return Refusal(json.status());
  return {.type = "application/json", .body = *std::move(json)};
}

WebResponse WebRoutes::Refusal(const Status& why) const {
  WebResponse refused = TextResponse(CodeOf(why), why.message());
  // A browser then asks for a name, which does not matter, and a password.
  if (refused.code == 401 && access_.takes_tokens()) {
    refused.headers.emplace_back("WWW-Authenticate", "Basic realm=\"millrace\", charset=\"UTF-8\"");
  }
  return refused;
}

}  // namespace millrace
