// How jobs end, and the record of it for people.
//
// Free functions, thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/epoch/position.h"
#include "millrace/v1/journal.pb.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// How the end of a session looks to its job: the outcome, the place of its loop, and why it ended.
/// The first line of `why` is kept, at most 512 bytes; a traceback may follow it.
v1::JobEnd EndOf(const SessionFacts& session, v1::JobOutcome outcome, std::string why = {});

/// How a session ends whose consumer says bye. `error`: of the consumer; empty: its user left.
v1::JobEnd EndByBye(const SessionFacts& session, const std::string& error);

/// How a job ends whose ranks have ended like this: as the worst of them, at the place of the
/// slowest one.
v1::JobEnd EndOfJob(const std::map<std::string, v1::JobEnd>& ranks);

/// The word of JobStatus.outcome; empty if the outcome is not known.
std::string_view OutcomeName(v1::JobOutcome outcome);

/// The share of the epoch's steps that come before a place.
double DoneBefore(const StepArithmetic& steps, Position place);

}  // namespace millrace
