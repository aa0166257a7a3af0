// A parameter as an option of a command line.
#pragma once

#include <functional>
#include <string>

#include "common/command_line/command_line.h"
#include "common/parameters/parameter.h"

namespace millrace {

/// The word for the value in --help: "N", "BYTES", "{a|b}".
std::string TypeNameOf(const Parameter& parameter);

/// Adds an option whose text becomes a checked value of the parameter, or a switch for a truth
/// value without words of its own: true, or false if the flag begins with '!'. `take` is called if
/// the option is given. --help shows the parameter's default if it has one. The parameter has to
/// live until the line has been read.
CommandOption AddParameterFlag(CommandLine& command, const std::string& flag,
                               const Parameter& parameter,
                               std::function<void(const ParamValue&)> take);

}  // namespace millrace
