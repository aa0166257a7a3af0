// Whether what a peer says makes sense, and the words for what does not. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// The fields of a Hello that need no plan: InvalidArgument with the numbers.
Status CheckHello(const v1::Hello& hello, const DispatcherOptions& options);

/// A reconnect must be the session it says it is: InvalidArgument naming what changed.
Status CheckSameSession(const SessionFacts& session, const v1::Hello& hello);

/// The fields of a worker's report: InvalidArgument with the numbers.
Status CheckWorkRequest(const v1::WorkRequest& request);

/// Cursor, world size and start against the plan, and all that Welcome says. FailedPrecondition
/// naming the half of the fingerprint that differs; `cursor_canonical` is the canonical text of the
/// cursor's pipeline, or empty where it is not known.
Result<SessionPlan> PlanForSession(const v1::Hello& hello, const RequestedPlan& plan,
                                   std::string_view cursor_canonical);

/// A report of a session with a plan: InvalidArgument with the numbers.
Status CheckReport(const v1::Report& report, const SessionPlan& plan,
                   const DispatcherOptions& options);

/// Its counts and the texts that name something, whatever the plan: InvalidArgument with the
/// numbers.
Status CheckReportSize(const v1::Report& report, const DispatcherOptions& options);

/// Cuts the texts that are for people, and drops what this version does not know: a report is kept
/// for as long as its session.
void Trim(v1::Report& report);
/// The same of a worker's, without the lists of files, which are compared and not kept.
v1::WorkRequest Trimmed(const v1::WorkRequest& request);

/// The options in which two canonical texts differ: "batch.size=512 there, 256 here; …", at most 8.
std::string DifferentOptions(std::string_view there, std::string_view here);

/// The first file in which two lists differ, in words; empty where none does.
std::string FirstDifference(const v1::DatasetState& here, const v1::DatasetState& there);

/// Whether sessions of these may be live in one job at a time.
bool Compatible(const SessionFacts& a, const SessionFacts& b);

/// Same host, where both say theirs.
inline bool SameHost(std::string_view a, std::string_view b) { return !a.empty() && a == b; }

}  // namespace millrace
