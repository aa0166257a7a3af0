#include "server/web/web_routes.h"

#include <unistd.h>

#include <string>

#include <catch2/catch.hpp>

#include "server/web/page_files.h"

namespace millrace::test {
namespace {

constexpr uid_t kStranger = 54321;

/// Names and tokens as an access file would have them.
class Policy final : public AccessPolicy {
 public:
  explicit Policy(bool tokens) : tokens_(tokens) {}
  Result<Identity> Identify(const Shown& shown) override {
    if (shown.certificate) return IdentityOfCertificate(shown);
    if (shown.token == "secret") {
      return Identity{.proved = true, .name = "bob", .roles = {PeerRole::kViewer}};
    }
    return Status(StatusCode::kUnauthenticated, "the token is not known");
  }
  bool takes_tokens() const override { return tokens_; }

 private:
  const bool tokens_;
};

struct Web {
  WebAccessOptions access;
  uid_t user = geteuid();
  Result<std::shared_ptr<const std::string>> status = std::make_shared<const std::string>("{}");

  Web() { access.users = *LocalUsers::Make(geteuid(), ""); }
  static Web WithTls(bool tokens) {
    Web web;
    web.access.policy = std::make_shared<Policy>(tokens);
    return web;
  }
  WebResponse Ask(const WebRequest& request) {
    WebAccessOptions options = access;
    options.user_of = [this](const WebRequest&) -> Result<uid_t> { return user; };
    const WebRoutes routes(
        {.metrics = [] { return std::string("m 1\n"); }, .status = [this] { return status; }},
        WebAccess(options));
    return routes.Answer(request);
  }
};

WebRequest Request(const std::string& path, const std::string& peer = "127.0.0.1",
                   const std::string& host = "localhost:7702") {
  return {.method = "GET", .path = path, .host = host, .peer = peer};
}

std::string HeaderOf(const WebResponse& response, const std::string& name) {
  std::string found;
  for (const auto& [key, value] : response.headers) found += key == name ? value : "";
  return found;
}

TEST_CASE("on loopback the daemon's own user gets the page, its files, status and metrics",
          "[web]") {
  Web web;
  for (const PageFile& file : PageFiles()) {
    CAPTURE(file.path);
    const WebResponse got = web.Ask(Request(std::string(file.path)));
    CHECK(got.code == 200);
    CHECK(*got.body == file.bytes);
  }
  const WebResponse page = web.Ask(Request("/"));
  CHECK(page.type == "text/html; charset=utf-8");
  CHECK(page.body->find("<!doctype html>") == 0);
  CHECK(web.Ask(Request("/page.js")).type == "text/javascript; charset=utf-8");
  const WebResponse status = web.Ask(Request("/status.json"));
  CHECK(status.type == "application/json");
  CHECK(*status.body == "{}");
  CHECK(*web.Ask(Request("/metrics")).body == "m 1\n");
}

TEST_CASE("every answer has the headers that keep everything else out", "[web]") {
  Web web;
  for (const char* path : {"/", "/status.json", "/page.css", "/nothing", "/metrics"}) {
    CAPTURE(path);
    const WebResponse got = web.Ask(Request(path));
    const std::string policy = HeaderOf(got, "Content-Security-Policy");
    CHECK(policy.find("default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
                      "'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
                      "form-action 'none'") == 0);
    CHECK(HeaderOf(got, "X-Content-Type-Options") == "nosniff");
    CHECK(HeaderOf(got, "Referrer-Policy") == "no-referrer");
    CHECK(HeaderOf(got, "Cache-Control") == "no-store");
  }
}

TEST_CASE("methods other than GET and HEAD are refused everywhere", "[web]") {
  Web web;
  for (const char* path : {"/", "/status.json", "/metrics", "/nothing"}) {
    for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"}) {
      WebRequest request = Request(path);
      request.method = method;
      CHECK(web.Ask(request).code == 405);
      CHECK(HeaderOf(web.Ask(request), "Allow") == "GET, HEAD");
    }
    WebRequest head = Request(path);
    head.method = "HEAD";
    CHECK(web.Ask(head).code == web.Ask(Request(path)).code);
  }
}

TEST_CASE("other paths are not found, and do not say who may see what", "[web]") {
  Web web;
  web.user = kStranger;
  for (const char* path : {"", "/index", "/page", "/../page.js", "/status", "/status.json/x"}) {
    CAPTURE(path);
    CHECK(web.Ask(Request(path)).code == 404);
  }
}

TEST_CASE("on loopback only names of loopback are answered, so that no other page can ask",
          "[web]") {
  Web web;
  for (const char* host : {"localhost", "localhost:7702", "127.0.0.1", "127.0.0.1:1", "127.1.2.3:9",
                           "[::1]", "[::1]:7702", "LOCALHOST:7702"}) {
    CAPTURE(host);
    CHECK(web.Ask(Request("/status.json", "127.0.0.1", host)).code == 200);
    CHECK(web.Ask(Request("/", "::1", host)).code == 200);
  }
  for (const bool open : {false, true}) {
    web.access.open = open;
    for (const char* host : {"", "evil.example", "evil.example:7702", "localhost.evil.example",
                             "127.0.0.1.evil.example:7702", "10.0.0.1:7702", "[::2]:7702"}) {
      CAPTURE(host, open);
      const WebResponse got = web.Ask(Request("/status.json", "127.0.0.1", host));
      CHECK(got.code == 403);
      CHECK(got.body->find("localhost or 127.0.0.1") != std::string::npos);
      CHECK(web.Ask(Request("/", "::ffff:127.0.0.1", host)).code == 403);
    }
  }
  CHECK(web.Ask(Request("/metrics", "127.0.0.1", "prometheus.example")).code == 200);
}

TEST_CASE("on loopback other users of the host are refused, unless the page is open", "[web]") {
  Web web;
  web.user = kStranger;
  const WebResponse got = web.Ask(Request("/status.json"));
  CHECK(got.code == 403);
  CHECK(got.body->find("uid 54321") != std::string::npos);
  CHECK(web.Ask(Request("/")).code == 403);
  CHECK(web.Ask(Request("/metrics")).code == 200);
  web.access.open = true;
  CHECK(web.Ask(Request("/status.json")).code == 200);
}

TEST_CASE("beyond loopback the page is refused in one sentence, unless it is open", "[web]") {
  Web web;
  for (const char* peer : {"10.0.0.7", "fe80::1", "::ffff:10.0.0.7"}) {
    CAPTURE(peer);
    web.access.open = false;
    for (const char* path : {"/", "/page.js", "/status.json"}) {
      const WebResponse got = web.Ask(Request(path, peer, "localhost:7702"));
      CHECK(got.code == 403);
      CHECK(got.body->find("--metrics-page") != std::string::npos);
    }
    CHECK(web.Ask(Request("/metrics", peer, "any")).code == 200);
    web.access.open = true;
    CHECK(web.Ask(Request("/status.json", peer, "millrace.example:7702")).code == 200);
  }
}

TEST_CASE("with TLS the page is for operators and viewers", "[web]") {
  Web web = Web::WithTls(false);
  const auto with_role = [&](const std::string& role) {
    WebRequest request = Request("/status.json", "10.0.0.7", "any.example");
    request.tls = true;
    request.shown = {
        .certificate = true, .common_name = "alice", .dns_names = {role + ".millrace"}};
    return web.Ask(request);
  };
  CHECK(with_role("operator").code == 200);
  CHECK(with_role("viewer").code == 200);
  for (const char* role : {"trainer", "worker", "dispatcher", "nobody"}) {
    CAPTURE(role);
    const WebResponse got = with_role(role);
    CHECK(got.code == 403);
    CHECK(got.body->find("alice") != std::string::npos);
    CHECK(got.body->find("expected the role operator or viewer") != std::string::npos);
  }
}

TEST_CASE("with TLS peers without a proof are refused, on loopback too", "[web]") {
  for (const bool tokens : {false, true}) {
    CAPTURE(tokens);
    Web web = Web::WithTls(tokens);
    const WebResponse got = web.Ask(Request("/status.json"));
    CHECK(got.code == (tokens ? 401 : 403));
    // Browsers ask for a password only where one could help.
    CHECK(HeaderOf(got, "WWW-Authenticate").empty() == !tokens);
    CHECK(web.Ask(Request("/metrics", "10.0.0.7")).code == 200);
  }
}

TEST_CASE("a viewer's token opens the page, and another one does not", "[web]") {
  Web web = Web::WithTls(true);
  WebRequest request = Request("/status.json", "10.0.0.7");
  request.shown.token = "secret";
  CHECK(web.Ask(request).code == 200);
  request.shown.token = "wrong";
  CHECK(web.Ask(request).code == 401);
}

TEST_CASE("if there is no status, the answer says why", "[web]") {
  Web web;
  web.status = Unavailable("not the leader: b leads");
  const WebResponse got = web.Ask(Request("/status.json"));
  CHECK(got.code == 503);
  CHECK(*got.body == "not the leader: b leads\n");
}

}  // namespace
}  // namespace millrace::test
