// The events of a service, as text for people.
//
// Pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "millrace/v1/dispatcher.pb.h"

namespace millrace::cli {

/// The last ten events of a status, the newest first. They refer to its messages.
std::vector<const v1::Event*> LastEvents(const v1::ServiceStatus& status);

/// Whether events of this kind report something that is wrong. It goes by the word's end, so that
/// it knows kinds of later versions too.
bool IsAlarm(std::string_view kind);

}  // namespace millrace::cli
