#include "client/cli/session_flags.h"

#include <string>

namespace millrace::cli {

CommandOption AddSessionFlag(CommandLine& command, const SessionOption& option,
                             SessionOptions& session) {
  const Parameter& parameter = option.parameter;
  if (parameter.types.front() == ParamType::kTexts) {
    return command.AddOption(option.flag, &session.overrides, parameter.help)
        .TypeName(option.type_name)
        .OneValueEach();
  }
  const bool on = option.member.Get(session) == ParamValue(true);
  const auto take = [&option, &session](const ParamValue& value) {
    option.member.Set(value, session);
  };
  CommandOption flag = AddParameterFlag(command, (on ? "!" : "") + option.flag, parameter, take);
  if (parameter.types.front() == ParamType::kBool) {
    return on ? flag.Help("do not " + parameter.help) : flag;
  }
  return flag.TypeName(option.type_name).Default(PlainText(parameter, option.member.Get(session)));
}

void AddSessionFlags(CommandLine& command, SessionOptions& session) {
  for (const SessionOption& option : SessionOptionTable()) {
    if (!option.flag.empty()) AddSessionFlag(command, option, session);
  }
}

}  // namespace millrace::cli
