#include "common/command_line/parameter_flag.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {

std::string TypeNameOf(const Parameter& parameter) {
  if (!parameter.allowed.empty()) return fmt::format("{{{}}}", fmt::join(parameter.allowed, "|"));
  switch (parameter.types.front()) {
    case ParamType::kBool:
      return "true|false";
    case ParamType::kText:
      return "TEXT";
    case ParamType::kBytes:
      return "BYTES";
    case ParamType::kSeconds:
      return "SECONDS";
    default:
      return "N";
  }
}

CommandOption AddParameterFlag(CommandLine& command, const std::string& flag,
                               const Parameter& parameter,
                               std::function<void(const ParamValue&)> take) {
  if (parameter.types.front() == ParamType::kBool && parameter.allowed.empty()) {
    const bool on = !flag.starts_with('!');
    return command.AddFlag(
        on ? flag : flag.substr(1), [take = std::move(take), on] { take(on); }, parameter.help);
  }
  CommandOption option = command.AddOption(
      flag,
      [&parameter, take = std::move(take)](const std::string& text) {
        take(*ReadText(parameter, text));  // was checked
      },
      parameter.help);
  option.TypeName(TypeNameOf(parameter)).Check([&parameter](const std::string& text) {
    return std::string(ReadText(parameter, text).status().message());
  });
  if (parameter.has_default()) option.Default(PlainText(parameter, parameter.default_value));
  return option;
}

}  // namespace millrace
