// Messages to a process of a plugin about the object that it runs. The answers are read by
// server/plugin/reply/reply_message.h.
//
// Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/plugin/plugin_config.h"

namespace millrace {

/// Has the process find or construct the object.
std::string OpenMessage(const PluginObject& object);

/// Sends the process the types of the tensors that it builds.
std::string OutputsMessage(const std::vector<PluginTensor>& tensors);

/// "true" or "false"
std::string_view JsonFlag(bool value);

}  // namespace millrace
