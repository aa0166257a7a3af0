// Checks of messages of peers, with errors for people. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// Checks the fields of a Hello that need no plan. InvalidArgument says what is wrong.
Status CheckHello(const v1::Hello& hello, const DispatcherOptions& options);

/// Checks that a session that comes back is still the same. InvalidArgument that describes both.
Status CheckSameSession(const SessionFacts& session, const v1::Hello& hello);

/// Checks the fields of a worker's report. InvalidArgument says what is wrong.
Status CheckWorkRequest(const v1::WorkRequest& request);

/// Checks the cursor, world size and start of a session against its plan, and computes the content
/// of Welcome. FailedPrecondition if the cursor belongs to another order: it names the half of the
/// fingerprint that differs. `cursor_canonical` is the canonical text of the cursor's pipeline, or
/// empty if that is not known.
Result<SessionPlan> PlanForSession(const v1::Hello& hello, const RequestedPlan& plan,
                                   std::string_view cursor_canonical);

/// Checks a report of a session that has its plan. InvalidArgument says what is wrong.
Status CheckReport(const v1::Report& report, const SessionPlan& plan);

/// Checks the counts and figures in a report. It needs no plan. InvalidArgument says what is wrong.
Status CheckReportSize(const v1::Report& report);

/// Cuts the texts that are for people, and drops the fields that this version does not know. A
/// report has to stay small, because it is kept for as long as its session.
void Trim(v1::Report& report);
/// Trims a worker's report. The lists of files are dropped too: they are not kept.
v1::WorkRequest Trimmed(const v1::WorkRequest& request);

/// The options in which two canonical texts differ: "batch.size=512 there, 256 here; …", at most 8.
std::string DifferentOptions(std::string_view there, std::string_view here);

/// The first file in which two lists differ, in words; empty if they do not differ. The list of
/// `there` may lack the last of its files.
std::string FirstDifference(const v1::DatasetState& here, const v1::DatasetState& there);

/// Whether the two sessions may be live in one job at the same time.
bool Compatible(const SessionFacts& a, const SessionFacts& b);

/// Whether two host ids are the same. False if a peer did not send its own.
inline bool SameHost(std::string_view a, std::string_view b) { return !a.empty() && a == b; }

}  // namespace millrace
