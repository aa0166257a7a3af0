#include "common/access/rights.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/core.h>

#include "common/base/plugin_id.h"

namespace millrace {
namespace {

using enum Reach;

constexpr std::array kTable{
    Right{.method = "/millrace.v1.Dispatcher/Attach", .trainer = kOwn},
    Right{.method = "/millrace.v1.Worker/StreamBatches", .trainer = kOwn},
    Right{.method = "/millrace.v1.Worker/GetStatic", .trainer = kOwn},
    Right{.method = "/millrace.v1.Dispatcher/Work", .worker = kAll},
    Right{.method = "/millrace.v1.Dispatcher/GetColumn", .worker = kAll},
    Right{.method = "/millrace.v1.Dispatcher/GetStatus",
          .trainer = kOwn,
          .operator_ = kAll,
          .viewer = kAllButPipelines},
    Right{.method = "/millrace.v1.Dispatcher/WatchStatus",
          .trainer = kOwn,
          .operator_ = kAll,
          .viewer = kAllButPipelines},
    Right{.method = "/millrace.v1.Dispatcher/EndJob", .trainer = kOwn, .operator_ = kAll},
    Right{.method = "/millrace.v1.Dispatcher/DrainWorker", .operator_ = kAll},
    Right{.method = "/millrace.v1.Dispatcher/UndrainWorker", .operator_ = kAll},
    Right{.method = "/millrace.v1.Dispatcher/Trace", .operator_ = kAll},
    Right{.method = "/grpc.health.v1.Health/Check", .anybody = true},
    Right{.method = "/grpc.health.v1.Health/Watch", .anybody = true},
};

const Right* Find(std::string_view method) {
  const auto found = std::find_if(kTable.begin(), kTable.end(),
                                  [&](const Right& right) { return right.method == method; });
  return found == kTable.end() ? nullptr : &*found;
}

Reach ReachOf(const Right& right, const Identity& peer) {
  if (!peer.proved || right.anybody) return kAll;
  Reach reach = kNone;
  const auto add = [&](PeerRole role, Reach of_role) {
    if (peer.roles.Has(role)) reach = std::max(reach, of_role);
  };
  add(PeerRole::kTrainer, right.trainer);
  add(PeerRole::kWorker, right.worker);
  add(PeerRole::kOperator, right.operator_);
  add(PeerRole::kViewer, right.viewer);
  return reach;
}

PeerRoles RolesThatMay(const Right& right) {
  PeerRoles roles;
  if (right.trainer != kNone) roles.Add(PeerRole::kTrainer);
  if (right.worker != kNone) roles.Add(PeerRole::kWorker);
  if (right.operator_ != kNone) roles.Add(PeerRole::kOperator);
  if (right.viewer != kNone) roles.Add(PeerRole::kViewer);
  return roles;
}

}  // namespace

std::span<const Right> RightsTable() { return kTable; }

Reach ReachOf(std::string_view method, const Identity& peer) {
  const Right* const right = Find(method);
  return right == nullptr ? kNone : ReachOf(*right, peer);
}

Status CheckRight(std::string_view method, const Identity& peer) {
  const Right* const right = Find(method);
  if (right == nullptr) {
    return PermissionDenied(fmt::format("nobody may call {}: it is no method of Millrace", method));
  }
  if (ReachOf(*right, peer) != kNone) return OkStatus();
  const std::string_view name = method.substr(method.rfind('/') + 1);
  return PermissionDenied(fmt::format("{} may not call {}: expected the role {}", peer.ToString(),
                                      name, RolesThatMay(*right).ToString()));
}

Status CheckDataset(const Identity& peer, std::string_view id) {
  if (id.starts_with(kPluginIdPrefix)) {
    if (peer.plugins) return OkStatus();
    return PermissionDenied(
        fmt::format("{} may not use plugins, and the pipeline names '{}': ask whoever keeps the "
                    "access file",
                    peer.ToString(), id.substr(kPluginIdPrefix.size())));
  }
  if (!peer.datasets || peer.datasets->contains(std::string(id))) return OkStatus();
  return PermissionDenied(fmt::format(
      "{} may not read dataset '{}': ask whoever keeps the access file", peer.ToString(), id));
}

}  // namespace millrace
