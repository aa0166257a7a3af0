// The rights of each role. One table has every method of every service; methods that are not in the
// table are refused.
//
// Immutable values and free functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/access/identity.h"
#include "common/base/result.h"

namespace millrace {

/// How far a right goes.
enum class Reach : std::uint8_t {
  kNone,
  kOwn,              // jobs that the peer's name began, and datasets that it may read
  kAllButPipelines,  // everything, without the text of pipelines
  kAll,
};

struct Right {
  std::string_view method;  // "/millrace.v1.Dispatcher/Attach"
  Reach trainer = Reach::kNone;
  Reach worker = Reach::kNone;
  Reach operator_ = Reach::kNone;
  Reach viewer = Reach::kNone;
  bool anybody = false;  // also peers without any role
};

std::span<const Right> RightsTable();

/// How far the peer may go with a method: the furthest of its roles. kAll for a peer that was not
/// asked who it is.
Reach ReachOf(std::string_view method, const Identity& peer);

/// PermissionDenied, naming the peer, its roles and the roles that may call the method, if the peer
/// may not call it at all.
Status CheckRight(std::string_view method, const Identity& peer);

/// Checks that the peer may read the dataset of that id, or name the plugin (kPluginIdPrefix).
/// PermissionDenied says what it may not.
Status CheckDataset(const Identity& peer, std::string_view id);

}  // namespace millrace
