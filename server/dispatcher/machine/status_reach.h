// The part of the service's status that a peer may see.
#pragma once

#include "common/access/identity.h"
#include "common/access/rights.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace {

/// Restricts `status` to `reach`: everything; everything except the texts of pipelines; or the jobs
/// that the peer began with their consumers and events, the datasets that it may read, and only the
/// number and states of workers, with how many its own jobs need. The reason for which a pipeline
/// was refused may quote its text.
void Restrict(v1::ServiceStatus& status, Reach reach, const Identity& peer);

}  // namespace millrace
