// The state of a Millrace service as tables for people.
//
// Pure functions.
#pragma once

#include <string>

#include "millrace/v1/dispatcher.pb.h"

namespace millrace::cli {

/// All tables, without details.
std::string StatusTable(const v1::ServiceStatus& status);
/// The same with what each consumer grants, and with the workers that failed it.
std::string DetailedStatusTable(const v1::ServiceStatus& status);
std::string JobsTable(const v1::ServiceStatus& status);

}  // namespace millrace::cli
