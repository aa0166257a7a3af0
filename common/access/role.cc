#include "common/access/role.h"

namespace millrace {
namespace {

constexpr std::string_view kSuffix = ".millrace";

}  // namespace

std::string_view PeerRoleName(PeerRole role) {
  switch (role) {
    case PeerRole::kDispatcher:
      return "dispatcher";
    case PeerRole::kWorker:
      return "worker";
    case PeerRole::kTrainer:
      return "trainer";
    case PeerRole::kOperator:
      return "operator";
    case PeerRole::kViewer:
      break;
  }
  return "viewer";
}

std::optional<PeerRole> ParsePeerRole(std::string_view name) {
  for (const PeerRole role : kPeerRoles) {
    if (PeerRoleName(role) == name) return role;
  }
  return std::nullopt;
}

std::string DnsNameOf(PeerRole role) {
  return std::string(PeerRoleName(role)) + std::string(kSuffix);
}

std::string PeerRoles::ToString() const {
  std::string text;
  for (const PeerRole role : kPeerRoles) {
    if (!Has(role)) continue;
    if (!text.empty()) text += ", ";
    text += PeerRoleName(role);
  }
  return text.empty() ? "none" : text;
}

PeerRoles RolesAmong(const std::vector<std::string>& dns_names) {
  PeerRoles roles;
  for (const PeerRole role : kPeerRoles) {
    for (const std::string& name : dns_names) {
      if (name == DnsNameOf(role)) roles.Add(role);
    }
  }
  return roles;
}

}  // namespace millrace
