// `millrace certs`: a CA, certificates and tokens, for people who have no other CA.

#include <arpa/inet.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "common/security/make_certificates.h"
#include "common/security/tls_files.h"
#include "common/security/token.h"
#include "common/security/x509.h"
#include "common/system/errno_status.h"
#include "common/system/read_text_file.h"

namespace millrace::cli {
namespace {

constexpr std::int64_t kDay = 86'400;
constexpr std::int64_t kCaDays = 3'650;
/// Certificates begin a little before now, for machines whose clocks are a little late.
constexpr std::int64_t kEarlier = 3'600;

struct CertsArguments {
  std::string dir;
  std::string name;
  std::vector<std::string> roles;
  std::vector<std::string> addresses;
  std::string token;
  int days = 365;
  bool renew = false;
};

/// A folder that is made without --name.
struct Preset {
  const char* name;
  PeerRoles roles;
};
const Preset kPresets[] = {
    {"dispatcher", {PeerRole::kDispatcher}},
    {"worker", {PeerRole::kWorker}},
    {"serve", {PeerRole::kDispatcher, PeerRole::kWorker}},
    {"trainer", {PeerRole::kTrainer}},
    {"operator", {PeerRole::kOperator}},
    {"viewer", {PeerRole::kViewer}},
};

std::int64_t Now() { return static_cast<std::int64_t>(std::time(nullptr)); }

Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus("cannot make the folder " + path, error.value());
  return OkStatus();
}

/// Writes a file as a whole or not at all.
Status WriteFile(const std::string& path, const std::string& text, mode_t mode) {
  const std::string temporary = path + ".tmp";
  {
    const mode_t before = umask(0777 & ~mode);
    std::ofstream out(temporary, std::ios::trunc);
    umask(before);
    out << text;
    out.close();
    if (!out) return ErrnoStatus("cannot write " + temporary, errno);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoStatus("cannot write " + path, errno);
  }
  return OkStatus();
}

/// The CA of the folder, which is made if there is none.
Result<CertificateAndKey> TheCa(const std::string& dir) {
  const std::string certificate = dir + "/ca.crt";
  const std::string key = dir + "/ca.key";
  if (std::filesystem::exists(certificate)) {
    CertificateAndKey ca;
    MILLRACE_ASSIGN_OR_RETURN(ca.certificate, ReadTextFile(certificate));
    MILLRACE_ASSIGN_OR_RETURN(ca.key, ReadTextFile(key));
    return ca;
  }
  const std::int64_t now = Now();
  MILLRACE_ASSIGN_OR_RETURN(CertificateAndKey ca, MakeCa({.name = "Millrace CA",
                                                          .roles = {},
                                                          .begin = now - kEarlier,
                                                          .end = now + kCaDays * kDay}));
  MILLRACE_RETURN_IF_ERROR(WriteFile(key, ca.key, 0600));
  MILLRACE_RETURN_IF_ERROR(WriteFile(certificate, ca.certificate, 0644));
  std::printf("%s: a new CA. Keep %s to yourself: it makes certificates of every role\n",
              certificate.c_str(), key.c_str());
  return ca;
}

Status MakeOne(const CertsArguments& arguments, const CertificateAndKey& ca,
               const std::string& name, PeerRoles roles) {
  const std::string folder = arguments.dir + "/" + name;
  if (std::filesystem::exists(folder + "/tls.crt") && !arguments.renew) {
    std::printf("%s: is there already; --renew makes it anew\n", folder.c_str());
    return OkStatus();
  }
  const std::int64_t now = Now();
  MILLRACE_ASSIGN_OR_RETURN(const CertificateAndKey made,
                            MakeCertificate(ca, {.name = name,
                                                 .roles = roles,
                                                 .addresses = arguments.addresses,
                                                 .begin = now - kEarlier,
                                                 .end = now + arguments.days * kDay}));
  MILLRACE_RETURN_IF_ERROR(MakeFolder(folder));
  // A process that reads the folder meanwhile finds a pair that does not match, and looks again.
  MILLRACE_RETURN_IF_ERROR(WriteFile(folder + "/ca.crt", ca.certificate, 0644));
  MILLRACE_RETURN_IF_ERROR(WriteFile(folder + "/tls.key", made.key, 0600));
  MILLRACE_RETURN_IF_ERROR(WriteFile(folder + "/tls.crt", made.certificate, 0644));
  const std::string whose =
      roles.empty() ? fmt::format("{}", fmt::join(arguments.addresses, ", ")) : roles.ToString();
  std::printf("%s: %s, until %s\n", folder.c_str(), whose.c_str(),
              UtcText(now + arguments.days * kDay).c_str());
  return OkStatus();
}

Status MakeTokenFolder(const CertsArguments& arguments, const CertificateAndKey& ca) {
  const std::string folder = arguments.dir + "/" + arguments.token;
  if (std::filesystem::exists(folder) && !arguments.renew) {
    return AlreadyExists(folder + " is there already: --renew makes a new token");
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string token, MakeToken());
  MILLRACE_RETURN_IF_ERROR(MakeFolder(folder));
  MILLRACE_RETURN_IF_ERROR(WriteFile(folder + "/ca.crt", ca.certificate, 0644));
  MILLRACE_RETURN_IF_ERROR(WriteFile(folder + "/token", token + "\n", 0600));
  std::printf(
      "%s: a token. Its line for `tokens:` in the access file of the daemons:\n"
      "  - {name: %s, sha256: %s, role: trainer}\n",
      folder.c_str(), arguments.token.c_str(), TokenDigest(token).c_str());
  return OkStatus();
}

Status CheckName(const std::string& name) {
  const bool plain = !name.empty() && name.front() != '.' && name != "ca.crt" && name != "ca.key" &&
                     name.find_first_of("/\\") == std::string::npos;
  if (plain) return OkStatus();
  return InvalidArgument(fmt::format("name '{}': expected the name of a folder", name));
}

Status Certs(const CertsArguments& arguments) {
  if (!arguments.name.empty() && !arguments.token.empty()) {
    return InvalidArgument("expected --name or --token, got both");
  }
  if (arguments.name.empty() != (arguments.roles.empty() && arguments.addresses.empty())) {
    return InvalidArgument("--name and --role (or --address) belong together");
  }
  for (const std::string& address : arguments.addresses) {
    in6_addr ignored;
    if (inet_pton(AF_INET, address.c_str(), &ignored) != 1 &&
        inet_pton(AF_INET6, address.c_str(), &ignored) != 1) {
      return InvalidArgument(fmt::format("address '{}': expected an IP address", address));
    }
  }
  PeerRoles roles;
  for (const std::string& text : arguments.roles) {
    const std::optional<PeerRole> role = ParsePeerRole(text);
    if (!role) {
      return InvalidArgument(
          fmt::format("role '{}': expected dispatcher, worker, trainer, operator or viewer", text));
    }
    roles.Add(*role);
  }
  MILLRACE_RETURN_IF_ERROR(MakeFolder(arguments.dir));
  if (!arguments.token.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckName(arguments.token));
    MILLRACE_ASSIGN_OR_RETURN(const CertificateAndKey ca, TheCa(arguments.dir));
    return MakeTokenFolder(arguments, ca);
  }
  if (!arguments.name.empty()) MILLRACE_RETURN_IF_ERROR(CheckName(arguments.name));
  MILLRACE_ASSIGN_OR_RETURN(const CertificateAndKey ca, TheCa(arguments.dir));
  if (!arguments.name.empty()) return MakeOne(arguments, ca, arguments.name, roles);
  for (const Preset& preset : kPresets) {
    MILLRACE_RETURN_IF_ERROR(MakeOne(arguments, ca, preset.name, preset.roles));
  }
  return OkStatus();
}

}  // namespace

void AddCertsCommand(Tool& tool) {
  const auto options = std::make_shared<CertsArguments>();
  CommandLine& command = tool.Add(
      "certs", "Make a CA, certificates and tokens",
      "  millrace certs tls                             # a CA, and a folder for each role\n"
      "  millrace certs tls --name alice --role trainer\n"
      "  millrace certs tls --name etcd --address 10.0.0.7  # for a server of another kind\n"
      "  millrace certs tls --token bob\n"
      "  millrace certs tls --renew\n"
      "Each folder is what --tls takes. Give a machine the folders that it needs, and never "
      "ca.key.\n",
      [options] { return Certs(*options); });
  command.AddOption("DIR", &options->dir, "folder of the CA; made if it is not there").Required();
  command.AddOption("--name", &options->name, "make one certificate, for this name")
      .TypeName("NAME");
  command
      .AddOption("--role", &options->roles,
                 "its role: dispatcher, worker, trainer, operator or viewer; several have commas "
                 "between")
      .Delimiter(',')
      .OneValueEach()
      .TypeName("ROLE");
  command
      .AddOption("--address", &options->addresses,
                 "IP address of its server; several have commas between")
      .Delimiter(',')
      .OneValueEach()
      .TypeName("IP");
  command.AddOption("--token", &options->token, "make a token for a trainer of this name")
      .TypeName("NAME");
  command.AddOption("--days", &options->days, "how long certificates are valid")
      .Check(WholeNumber(1, 36'500))
      .ShowDefault();
  command.AddFlag("--renew", options->renew, "make what is there already anew, but not the CA");
}

}  // namespace millrace::cli
