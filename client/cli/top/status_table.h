// The state of a Millrace service as tables for people.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "millrace/v1/dispatcher.pb.h"

namespace millrace::cli {

/// All tables, without details.
std::string StatusTable(const v1::ServiceStatus& status);
/// The same with what each consumer grants, and with the workers that failed it.
std::string DetailedStatusTable(const v1::ServiceStatus& status);
/// The jobs, how many workers they need, and how far those with a mix have read its branches.
std::string JobsTable(const v1::ServiceStatus& status);
/// A job's state in a word or two. For an ended job: how it ended, "completed", "ended by ann".
std::string JobStateText(const v1::JobStatus& job);
/// Why a job does not run: its error, or what it waits for. Empty if it runs.
std::string JobWhyText(const v1::JobStatus& job);
/// The epoch of the job's step: the epoch of its place, or at the end of a job the one before.
std::uint64_t EpochOf(const v1::JobStatus& job);
/// "4/6": 4 workers are present, and 6 are wanted.
std::string WorkersText(const v1::DesiredWorkers& figure);
/// The heading of the column with the tokens of jobs. Tables have it if a job has tokens.
inline constexpr const char* kTokensHeading = "TOKENS/S";
bool HaveTokens(const v1::ServiceStatus& status);
/// The datasets of a service in the order of their ids; the message has no order of its own.
std::map<std::string_view, const v1::DatasetState*> DatasetsById(const v1::ServiceStatus& status);
/// A dataset's state, in a few words: "ready", how much is indexed, unverified or in memory, or its
/// error.
std::string DatasetStateText(const v1::DatasetState& dataset);

}  // namespace millrace::cli
