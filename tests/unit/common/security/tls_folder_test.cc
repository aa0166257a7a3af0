#include "common/security/tls_folder.h"

#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/support/certificates.h"
#include "tests/support/fake_clock.h"
#include "tests/support/recording_logger.h"

namespace millrace {
namespace {

using test::Certificates;

constexpr PeerRoles kOnlyWorker{PeerRole::kWorker};

struct Folder {
  Certificates certificates;
  std::string path = certificates.Add("w-1", kOnlyWorker);
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>(Certificates::Now());
  std::shared_ptr<test::RecordingLogger> log = std::make_shared<test::RecordingLogger>();
  std::shared_ptr<TlsFolder> folder = *TlsFolder::Open({path, kOnlyWorker}, clock, log);

  std::shared_ptr<const TlsFiles> Later() {
    clock->Advance(std::chrono::seconds(2));
    return folder->Current();
  }
  void Take(const std::string& other, const char* file) {
    std::filesystem::copy_file(other + "/" + file, path + "/" + file,
                               std::filesystem::copy_options::overwrite_existing);
  }
};

TEST_CASE("certificates that are renewed are taken without a restart", "[tls]") {
  Folder f;
  const auto before = f.folder->Current();
  CHECK(f.Later() == before);
  const std::string renewed = f.certificates.Add("w-2", kOnlyWorker, -60, 7200);
  f.Take(renewed, "tls.crt");
  f.Take(renewed, "tls.key");
  CHECK(f.folder->Current() == before);  // it looks once a second
  const auto after = f.Later();
  CHECK(after->ends > before->ends);
  CHECK(f.log->Has("certificates read again"));
}

TEST_CASE("a pair that does not match, or garbage, leaves the old one in force, and that is said",
          "[tls]") {
  Folder f;
  const auto before = f.folder->Current();
  const std::string renewed = f.certificates.Add("w-2", kOnlyWorker, -60, 7200);
  SECTION("half of a renewal") {
    f.Take(renewed, "tls.crt");
    CHECK(f.Later() == before);
    CHECK(f.log->Has("certificates not read again; those before stay in force"));
    CHECK(f.log->Has("is not the key of"));
    f.Take(renewed, "tls.key");  // the other half
    CHECK(f.Later() != before);
  }
  SECTION("garbage") {
    test::WriteText(f.path + "/tls.crt", "garbage");
    CHECK(f.Later() == before);
    CHECK(f.log->Has("holds no certificate"));
  }
  SECTION("nothing") {
    std::filesystem::remove(f.path + "/ca.crt");
    CHECK(f.Later() == before);
    CHECK(f.log->Has("cannot read"));
  }
}

TEST_CASE("a certificate that begins later is taken when it does", "[tls]") {
  Folder f;
  const auto before = f.folder->Current();
  const std::string early = f.certificates.Add("w-2", kOnlyWorker, 600, 7200);
  f.Take(early, "tls.crt");
  f.Take(early, "tls.key");
  CHECK(f.Later() == before);
  f.clock->SetUnixSeconds(Certificates::Now() + 700);
  CHECK(f.Later() != before);
}

}  // namespace
}  // namespace millrace
