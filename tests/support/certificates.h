// A CA of a test, and folders with certificates that it signed.
#pragma once

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/security/make_certificates.h"

namespace millrace::test {

inline void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

class Certificates {
 public:
  Certificates() {
    std::string name = std::filesystem::temp_directory_path() / "millrace-tls-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
    ca_ = MakeCa();
  }
  ~Certificates() { std::filesystem::remove_all(root_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  static std::int64_t Now() { return std::time(nullptr); }

  /// Another CA with the same name.
  static CertificateAndKey MakeCa() {
    auto ca = millrace::MakeCa(
        {.name = "test CA", .roles = {}, .begin = Now() - 3600, .end = Now() + 86400});
    REQUIRE(ca.ok());
    return *ca;
  }

  /// Makes a folder with a certificate, and returns its path. Times are seconds from now.
  std::string Add(const std::string& folder, PeerRoles roles, std::int64_t begin = -60,
                  std::int64_t end = 3600) {
    return AddOf(ca_, folder, roles, begin, end);
  }
  /// The same, signed by another CA, whose certificate is the folder's ca.crt if `own_ca`.
  std::string AddOf(const CertificateAndKey& ca, const std::string& folder, PeerRoles roles,
                    std::int64_t begin = -60, std::int64_t end = 3600, bool own_ca = true) {
    const auto made = MakeCertificate(ca, {.name = folder.substr(0, folder.find('-')),
                                           .roles = roles,
                                           .addresses = {"127.0.0.1"},
                                           .begin = Now() + begin,
                                           .end = Now() + end});
    REQUIRE(made.ok());
    const std::string path = root_ + "/" + folder;
    std::filesystem::create_directories(path);
    WriteText(path + "/ca.crt", own_ca ? ca.certificate : ca_.certificate);
    WriteText(path + "/tls.crt", made->certificate);
    WriteText(path + "/tls.key", made->key);
    return path;
  }
  /// A folder with a token in place of a certificate.
  std::string AddToken(const std::string& folder, const std::string& token) {
    const std::string path = root_ + "/" + folder;
    std::filesystem::create_directories(path);
    WriteText(path + "/ca.crt", ca_.certificate);
    WriteText(path + "/token", token + "\n");
    return path;
  }

  const std::string& root() const { return root_; }
  const CertificateAndKey& ca() const { return ca_; }

 private:
  std::string root_;
  CertificateAndKey ca_;
};

}  // namespace millrace::test
