#include "common/command_line/command_line.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "common/base/suggestion.h"

namespace millrace {

CommandOption& CommandOption::Required(bool required) {
  option_->required(required);
  return *this;
}

CommandOption& CommandOption::Help(const std::string& text) {
  option_->description(text);
  return *this;
}

CommandOption& CommandOption::Group(const std::string& heading) {
  option_->group(heading);
  return *this;
}

CommandOption& CommandOption::TypeName(const std::string& name) {
  option_->type_name(name);
  return *this;
}

CommandOption& CommandOption::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

CommandOption& CommandOption::Default(const std::string& text) {
  option_->default_str(text);
  return *this;
}

CommandOption& CommandOption::Check(TextCheck check) {
  option_->transform(CLI::Validator(std::move(check), ""));
  return *this;
}

CommandOption& CommandOption::OneOf(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}

CommandOption& CommandOption::Between(double min, double max) {
  option_->check(CLI::Range(min, max).description(fmt::format("{} to {}", min, max)));
  return *this;
}

CommandOption& CommandOption::Positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

CommandOption& CommandOption::Folder() {
  option_->check(CLI::ExistingDirectory);
  return *this;
}

CommandOption& CommandOption::Needs(const std::string& other) {
  option_->needs(other);
  return *this;
}

CommandOption& CommandOption::Excludes(const std::string& other) {
  option_->excludes(other);
  return *this;
}

CommandOption& CommandOption::OneValueEach() {
  option_->allow_extra_args(false);
  return *this;
}

CommandOption& CommandOption::Delimiter(char between) {
  option_->delimiter(between);
  return *this;
}

CommandOption& CommandOption::TakeLast() {
  option_->take_last();
  return *this;
}

CommandOption& CommandOption::MayStandAlone() {
  option_->expected(0, 1);
  return *this;
}

std::size_t CommandOption::count() const { return option_->count(); }

CommandLine::CommandLine(const std::string& description, const std::string& name)
    : program_(std::make_unique<CLI::App>(description, name)), app_(program_.get()) {}

CommandLine::CommandLine(CLI::App* command) : app_(command) {}

CommandLine::~CommandLine() = default;

void CommandLine::SetVersion(const std::string& version) {
  app_->set_version_flag("--version", version);
}

void CommandLine::RequireCommand() { app_->require_subcommand(1); }

CommandLine& CommandLine::AddCommand(const std::string& name, const std::string& help,
                                     std::function<void()> run) {
  CLI::App* const command = app_->add_subcommand(name, help);
  commands_.emplace_back(new CommandLine(command));
  if (run) command->callback(std::move(run));
  return *commands_.back();
}

void CommandLine::SetFooter(const std::string& text) { app_->footer(text); }

void CommandLine::ShowDefaults() { app_->option_defaults()->always_capture_default(); }

void CommandLine::FallThrough() { app_->fallthrough(); }

void CommandLine::TakeRest(std::vector<std::string>& rest) {
  app_->set_help_flag();
  app_->prefix_command();
  // Called before the work of the command.
  app_->parse_complete_callback([this, &rest] { rest = app_->remaining(); });
}

CommandOption CommandLine::AddOption(const std::string& name, OptionTarget target,
                                     const std::string& help) {
  return CommandOption(
      std::visit([&](auto* value) { return app_->add_option(name, *value, help); }, target));
}

CommandOption CommandLine::AddOption(const std::string& name,
                                     std::function<void(const std::string&)> take,
                                     const std::string& help) {
  return CommandOption(app_->add_option_function<std::string>(name, take, help));
}

CommandOption CommandLine::AddFlag(const std::string& name, bool& value, const std::string& help) {
  return CommandOption(app_->add_flag(name, value, help));
}

CommandOption CommandLine::AddFlag(const std::string& name, std::function<void()> on,
                                   const std::string& help) {
  return CommandOption(app_->add_flag_callback(name, std::move(on), help));
}

std::optional<CommandOption> CommandLine::Find(const std::string& name) const {
  CLI::Option* const option = app_->get_option_no_throw(name);
  return option == nullptr ? std::nullopt : std::optional<CommandOption>(option);
}

std::optional<int> CommandLine::Parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    // CLI11 alone would only say that a command is missing.
    std::vector<std::string> known;
    const CommandLine* chosen = nullptr;
    for (const std::unique_ptr<CommandLine>& command : commands_) {
      known.push_back(command->app_->get_name());
      if (argc > 1 && known.back() == argv[1]) chosen = command.get();
    }
    const bool is_command = argc > 1 && argv[1][0] != '-' && !commands_.empty();
    if (is_command && chosen == nullptr) {
      fmt::print(stderr, "{}: no command '{}'{}; expected one of {}\n", app_->get_name(), argv[1],
                 Suggestion(argv[1], known), fmt::join(known, ", "));
      return 2;
    }
    const int code = app_->exit(error) == 0 ? 0 : 2;
    if (code != 0) (chosen != nullptr ? chosen : this)->Suggest(argc, argv);
    return code;
  }
}

void CommandLine::Suggest(int argc, const char* const* argv) const {
  std::vector<std::string> known;
  for (const CLI::Option* const option : app_->get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    if (!text.starts_with("--")) continue;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string meant = Nearest(name, known);
    if (!meant.empty()) fmt::print(stderr, "{}: did you mean {}?\n", name, meant);
  }
}

std::string CommandLine::Help() const { return app_->help(); }

}  // namespace millrace
