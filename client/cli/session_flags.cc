#include "client/cli/session_flags.h"

#include <string>
#include <variant>
#include <vector>

namespace millrace::cli {
namespace {

/// Why the option does not take a text; empty if it does.
std::string Refusal(const SessionOption& option, const std::string& text) {
  SessionOptions tried;
  const Status set = option.SetText(text, tried);
  return set.ok() ? std::string() : set.message();
}

}  // namespace

CommandOption AddSessionFlag(CommandLine& command, const SessionOption& option,
                             SessionOptions& session) {
  const std::string flag(option.flag);
  const std::string help(option.help);
  if (const auto* member = std::get_if<bool SessionOptions::*>(&option.member)) {
    bool& value = session.*(*member);
    return value ? command.AddFlag("!" + flag, value, "do not " + help)
                 : command.AddFlag(flag, value, help);
  }
  if (const auto* member =
          std::get_if<std::vector<std::string> SessionOptions::*>(&option.member)) {
    return command.AddOption(flag, &(session.*(*member)), help)
        .TypeName(std::string(option.type_name))
        .OneValueEach();
  }
  // Read again by the table: CLI11 alone takes 010 for 8 and -1 for 18446744073709551615.
  return command
      .AddOption(
          flag,
          [&option, &session](const std::string& text) {
            (void)option.SetText(text, session);  // was checked
          },
          help)
      .TypeName(std::string(option.type_name))
      .Default(option.Print(session))
      .Check([&option](const std::string& text) { return Refusal(option, text); });
}

void AddSessionFlags(CommandLine& command, SessionOptions& session) {
  for (const SessionOption& option : SessionOptionTable()) {
    if (!option.flag.empty()) AddSessionFlag(command, option, session);
  }
}

}  // namespace millrace::cli
