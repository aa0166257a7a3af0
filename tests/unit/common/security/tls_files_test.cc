#include "common/security/tls_files.h"

#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/support/certificates.h"

namespace millrace {
namespace {

using test::Certificates;
using test::WriteText;

constexpr PeerRoles kWorkerOnly{PeerRole::kWorker};

Status Refusal(const std::string& folder, PeerRoles roles = kWorkerOnly,
               TlsProof proof = TlsProof::kCertificate) {
  const auto files = ReadTlsFiles(folder, roles, proof, Certificates::Now());
  REQUIRE_FALSE(files.ok());
  return files.status();
}

TEST_CASE("a folder with a certificate says whose it is, what it may be and when it ends",
          "[tls]") {
  Certificates certificates;
  const std::string folder =
      certificates.Add("w1", {PeerRole::kWorker, PeerRole::kDispatcher}, -60, 3600);
  const auto files = ReadTlsFiles(folder, kWorkerOnly, TlsProof::kCertificate, Certificates::Now());
  REQUIRE(files.ok());
  CHECK(files->name == "w1");
  CHECK(files->roles == PeerRoles{PeerRole::kWorker, PeerRole::kDispatcher});
  CHECK(std::abs(files->ends - Certificates::Now() - 3600) < 60);
  CHECK(files->token.empty());
}

TEST_CASE("what does not fit in a TLS folder is named", "[tls]") {
  Certificates certificates;
  const std::string folder = certificates.Add("w", kWorkerOnly);
  SECTION("a file that is missing") {
    const std::string file = GENERATE("ca.crt", "tls.crt", "tls.key");
    std::filesystem::remove(folder + "/" + file);
    const Status why = Refusal(folder);
    CHECK(why.code() == StatusCode::kNotFound);
    CHECK_THAT(why.message(), Catch::Contains(folder + "/" + file) &&
                                  Catch::Contains("expected ca.crt, tls.crt and tls.key"));
  }
  SECTION("a folder that is missing") {
    CHECK(Refusal(folder + "/none").code() == StatusCode::kNotFound);
  }
  SECTION("a folder in place of a file") {
    std::filesystem::remove(folder + "/tls.key");
    std::filesystem::create_directory(folder + "/tls.key");
    CHECK_THAT(Refusal(folder).message(), Catch::Contains(folder + "/tls.key"));
  }
  SECTION("garbage") {
    const std::string file = GENERATE("ca.crt", "tls.crt", "tls.key");
    const std::string text =
        GENERATE("", "garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                 "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    WriteText(folder + "/" + file, text);
    CHECK(Refusal(folder).code() == StatusCode::kInvalidArgument);
    CHECK_THAT(Refusal(folder).message(), Catch::Contains(folder + "/" + file));
  }
  SECTION("another certificate's key") {
    const std::string other = certificates.Add("other", kWorkerOnly);
    std::filesystem::copy_file(other + "/tls.key", folder + "/tls.key",
                               std::filesystem::copy_options::overwrite_existing);
    CHECK(Refusal(folder) ==
          FailedPrecondition(folder + "/tls.key is not the key of " + folder + "/tls.crt"));
  }
  SECTION("another CA") {
    const std::string other = certificates.AddOf(Certificates::MakeCa(), "other", kWorkerOnly, -60,
                                                 3600, /*own_ca=*/false);
    CHECK(Refusal(other).code() == StatusCode::kFailedPrecondition);
    CHECK_THAT(Refusal(other).message(),
               Catch::Contains("was not signed by") && Catch::Contains("CN = test CA"));
  }
  SECTION("a certificate of the past") {
    const std::string old = certificates.Add("old", kWorkerOnly, -7200, -3600);
    CHECK_THAT(Refusal(old).message(), Catch::Contains(old + "/tls.crt expired on"));
  }
  SECTION("a certificate of the future") {
    const std::string early = certificates.Add("early", kWorkerOnly, 3600, 7200);
    CHECK_THAT(Refusal(early).message(), Catch::Contains(early + "/tls.crt is not valid before"));
  }
  SECTION("another role") {
    const std::string trainer = certificates.Add("t", {PeerRole::kTrainer});
    const Status why = Refusal(trainer, {PeerRole::kDispatcher, PeerRole::kWorker});
    CHECK(why.code() == StatusCode::kFailedPrecondition);
    CHECK_THAT(
        why.message(),
        Catch::Contains("is a certificate of the role trainer: expected dispatcher, worker"));
  }
}

TEST_CASE("a token takes the place of a certificate where it will do", "[tls]") {
  Certificates certificates;
  const std::string folder = certificates.AddToken("bob", "s3cret");
  const auto files = ReadTlsFiles(folder, {}, TlsProof::kCertificateOrToken, Certificates::Now());
  REQUIRE(files.ok());
  CHECK(files->token == "s3cret");
  CHECK(files->certificate.empty());
  CHECK(Refusal(folder, kWorkerOnly).code() == StatusCode::kNotFound);
  WriteText(folder + "/token", "\n");
  CHECK(Refusal(folder, {}, TlsProof::kCertificateOrToken) ==
        InvalidArgument(folder + "/token is empty"));
}

TEST_CASE("where another proof will do, ca.crt is enough, and what else is there is checked",
          "[tls]") {
  Certificates certificates;
  const std::string folder = certificates.Add("w", {});
  CHECK(ReadTlsFiles(folder, {}, TlsProof::kNone, Certificates::Now())->name == "w");
  std::filesystem::remove(folder + "/tls.key");
  CHECK(Refusal(folder, {}, TlsProof::kNone).code() == StatusCode::kNotFound);
  std::filesystem::remove(folder + "/tls.crt");
  CHECK(ReadTlsFiles(folder, {}, TlsProof::kNone, Certificates::Now())->certificate.empty());
}

TEST_CASE("a key with a password is refused, and nobody is asked for it", "[tls]") {
  Certificates certificates;
  const std::string folder = certificates.Add("w", kWorkerOnly);
  WriteText(folder + "/tls.key",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGxMBwGCiqGSIb3DQEMAQMwDgQIAAAA\n"
            "-----END ENCRYPTED PRIVATE KEY-----\n");
  CHECK(Refusal(folder).code() == StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
