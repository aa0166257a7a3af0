// The part of the service's status that a peer may see.
#pragma once

#include "common/access/identity.h"
#include "common/access/rights.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace {

/// Leaves in `status` what `reach` allows: everything; everything but the texts of pipelines; or
/// the jobs that the peer began with their consumers and events, the datasets that it may read, and
/// of workers only how many there are, their states, and how many its own jobs need. The reason for
/// which a pipeline was refused may quote its text.
void Restrict(v1::ServiceStatus& status, Reach reach, const Identity& peer);

}  // namespace millrace
