#include "client/cli/session_flags.h"

#include <string>
#include <variant>
#include <vector>

namespace millrace::cli {
namespace {

/// The answer of a CLI11 validator for a text: empty if the option takes the text.
std::string Refusal(const SessionOption& option, const std::string& text) {
  SessionOptions tried;
  const Status set = option.SetText(text, tried);
  return set.ok() ? std::string() : set.message();
}

}  // namespace

CLI::Option* AddSessionFlag(CLI::App* command, const SessionOption& option,
                            SessionOptions& session) {
  const std::string flag(option.flag);
  const std::string help(option.help);
  if (const auto* member = std::get_if<bool SessionOptions::*>(&option.member)) {
    bool& value = session.*(*member);
    return value ? command->add_flag("!" + flag, value, "do not " + help)
                 : command->add_flag(flag, value, help);
  }
  if (const auto* member =
          std::get_if<std::vector<std::string> SessionOptions::*>(&option.member)) {
    return command->add_option(flag, session.*(*member), help)
        ->type_name(std::string(option.type_name))
        ->allow_extra_args(false);
  }
  // Read again by the table: CLI11 alone takes 010 for 8 and -1 for 18446744073709551615.
  return command
      ->add_option_function<std::string>(
          flag,
          [&option, &session](const std::string& text) {
            const Status set = option.SetText(text, session);
            if (!set.ok()) throw CLI::ValidationError(set.message());
          },
          help)
      ->type_name(std::string(option.type_name))
      ->default_str(option.Print(session))
      ->check([&option](const std::string& text) { return Refusal(option, text); });
}

void AddSessionFlags(CLI::App* command, SessionOptions& session) {
  for (const SessionOption& option : SessionOptionTable()) {
    if (!option.flag.empty()) AddSessionFlag(command, option, session);
  }
}

}  // namespace millrace::cli
