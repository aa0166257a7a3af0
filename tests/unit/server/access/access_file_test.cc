#include "server/access/access_file.h"

#include <catch2/catch.hpp>

#include "common/security/token.h"
#include "tests/support/certificates.h"
#include "tests/support/fake_clock.h"
#include "tests/support/recording_logger.h"

namespace millrace {
namespace {

constexpr const char* kRules = R"(names:
  alice: {role: trainer, datasets: [stdlib], plugins: false}
  carol: {role: [operator, viewer]}
  mallory: {role: none}
tokens:
  - {name: bob, sha256: DIGEST, role: trainer, datasets: []}
)";

std::string Rules(const std::string& token = "s3cret") {
  std::string text = kRules;
  return text.replace(text.find("DIGEST"), 6, TokenDigest(token));
}

Shown Certificate(const std::string& name, const std::string& role) {
  return {.certificate = true, .common_name = name, .dns_names = {role + ".millrace"}};
}

struct Policy {
  test::Certificates folder;
  std::string path = folder.root() + "/access.yml";
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>();
  std::shared_ptr<test::RecordingLogger> log = std::make_shared<test::RecordingLogger>();
  std::shared_ptr<AccessFile> file;

  Policy() {
    test::WriteText(path, Rules());
    file = *AccessFile::Open(path, clock, log);
  }
  void Rewrite(const std::string& text) {
    test::WriteText(path, text);
    clock->Advance(std::chrono::seconds(2));
  }
};

TEST_CASE("a name in the access file gets what the file says, in place of its certificate",
          "[access]") {
  Policy p;
  const Identity alice = *p.file->Identify(Certificate("alice", "operator"));
  CHECK(alice.roles == PeerRoles{PeerRole::kTrainer});
  CHECK(alice.datasets == std::set<std::string>{"stdlib"});
  CHECK_FALSE(alice.plugins);
  CHECK(p.file->Identify(Certificate("carol", "trainer"))->roles ==
        PeerRoles{PeerRole::kOperator, PeerRole::kViewer});
  CHECK(p.file->Identify(Certificate("mallory", "operator"))->roles.empty());
}

TEST_CASE("a name that is not in the access file has what its certificate says", "[access]") {
  Policy p;
  const Identity dave = *p.file->Identify(Certificate("dave", "viewer"));
  CHECK(dave.roles == PeerRoles{PeerRole::kViewer});
  CHECK_FALSE(dave.datasets);
  CHECK(dave.plugins);
}

TEST_CASE("a token is known by its digest", "[access]") {
  Policy p;
  const Identity bob = *p.file->Identify({.token = "s3cret"});
  CHECK(bob.name == "bob");
  CHECK(bob.roles == PeerRoles{PeerRole::kTrainer});
  CHECK(bob.datasets->empty());
  CHECK(p.file->Identify({.token = "s3cret "}).status().code() == StatusCode::kUnauthenticated);
  CHECK(p.file->Identify({}).status().code() == StatusCode::kUnauthenticated);
  const std::string file_text = Rules();
  CHECK(file_text.find("s3cret") == std::string::npos);
}

TEST_CASE("an access file that changes is read again, and one with a mistake is not", "[access]") {
  Policy p;
  p.Rewrite(Rules("another"));
  CHECK(p.file->Identify({.token = "another"}).ok());
  CHECK_FALSE(p.file->Identify({.token = "s3cret"}).ok());
  p.Rewrite("names: {alice: {role: king}}");
  CHECK(p.file->Identify({.token = "another"}).ok());
  CHECK(p.log->Has("the rules before stay in force"));
  CHECK(p.log->Has("access.yml:1:23: role: expected trainer"));
}

TEST_CASE("a mistake in an access file is named with its place", "[access]") {
  struct Case {
    std::string text, says;
  };
  const auto c = GENERATE(
      Case{"[]", "a.yml:1:1: expected a map of names, tokens, got"},
      Case{"name: {}", "a.yml:1:1: unknown key 'name' (did you mean names?)"},
      Case{"names: {alice: {roles: trainer}}", "unknown key 'roles'"},
      Case{"names: {alice: {datasets: [a]}}", "'alice' needs a role"},
      Case{"names: {alice: {role: trainer, datasets: a}}", "datasets: expected a list of ids"},
      Case{"names: {alice: {role: trainer, plugins: maybe}}", "plugins: expected true or false"},
      Case{"tokens: [{name: bob, role: trainer}]", "a token needs sha256"},
      Case{"tokens: [{name: bob, sha256: abc, role: trainer}]", "expected 64 hex digits"},
      Case{"tokens: [{name: bob, sha256: " + std::string(64, 'a') + ", role: worker}]",
           "token 'bob' has the role worker: expected trainer, operator, viewer"});
  const auto rules = ParseAccessRules(c.text, "a.yml");
  REQUIRE_FALSE(rules.ok());
  CHECK(rules.status().code() == StatusCode::kInvalidArgument);
  CHECK_THAT(rules.status().message(), Catch::Contains(c.says));
}

TEST_CASE("tokens differ, and are hard to guess", "[access]") {
  const std::string token = *MakeToken();
  CHECK(token.size() == 44);
  CHECK(token != *MakeToken());
  CHECK(TokenDigest("test") == "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
}

}  // namespace
}  // namespace millrace
