// The role of a process in a fleet. A certificate has a role if DNS:<role>.millrace is among its
// subject alternative names. It may have several.
//
// Values and free functions; thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

enum class PeerRole : std::uint8_t { kDispatcher, kWorker, kTrainer, kOperator, kViewer };

inline constexpr std::array kPeerRoles{PeerRole::kDispatcher, PeerRole::kWorker, PeerRole::kTrainer,
                                       PeerRole::kOperator, PeerRole::kViewer};

/// "dispatcher", "worker", "trainer", "operator" or "viewer".
std::string_view PeerRoleName(PeerRole role);
std::optional<PeerRole> ParsePeerRole(std::string_view name);

/// The name by which a certificate has the role: "worker.millrace".
std::string DnsNameOf(PeerRole role);

/// A set of roles.
class PeerRoles {
 public:
  constexpr PeerRoles() = default;
  constexpr PeerRoles(std::initializer_list<PeerRole> roles) {
    for (const PeerRole role : roles) Add(role);
  }
  constexpr void Add(PeerRole role) { bits_ |= Bit(role); }
  constexpr bool Has(PeerRole role) const { return (bits_ & Bit(role)) != 0; }
  /// Whether all of `roles` are in the set.
  constexpr bool HasAll(PeerRoles roles) const { return (bits_ & roles.bits_) == roles.bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  /// "dispatcher, worker"; "none" for the empty set.
  std::string ToString() const;
  friend constexpr bool operator==(PeerRoles, PeerRoles) = default;

 private:
  static constexpr std::uint8_t Bit(PeerRole role) {
    return static_cast<std::uint8_t>(1u << static_cast<unsigned>(role));
  }
  std::uint8_t bits_ = 0;
};

/// The roles that are among the DNS names of a certificate.
PeerRoles RolesAmong(const std::vector<std::string>& dns_names);

}  // namespace millrace
