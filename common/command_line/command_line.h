// The command line of a program: its commands, and the options of each. CLI11 reads it. Its header
// takes a compiler ten seconds, so only command_line.cc includes it.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace millrace {

/// The variable that takes the value of an option. It has to live until the line has been read.
using OptionTarget =
    std::variant<std::string*, std::filesystem::path*, bool*, int*, std::uint32_t*, std::uint64_t*,
                 double*, std::optional<std::string>*, std::optional<std::uint32_t>*,
                 std::optional<std::uint64_t>*, std::vector<std::string>*, std::vector<int>*,
                 std::vector<std::uint32_t>*, std::vector<std::uint64_t>*, std::vector<double>*>;

/// Says why an option does not take a text; empty if it takes it. It may change the text.
using TextCheck = std::function<std::string(std::string& text)>;

/// One option or argument of a command. A handle, valid as long as its CommandLine. Each function
/// returns the handle, so that calls can be chained.
class CommandOption {
 public:
  explicit CommandOption(CLI::Option* option) : option_(option) {}

  CommandOption& Required(bool required = true);
  CommandOption& Help(const std::string& text);
  /// The word for the value in --help, for example "SECONDS".
  CommandOption& TypeName(const std::string& name);
  /// --help shows what the variable holds now.
  CommandOption& ShowDefault();
  /// --help shows this text as the default.
  CommandOption& Default(const std::string& text);
  CommandOption& Check(TextCheck check);
  CommandOption& OneOf(const std::vector<std::string>& words);
  /// A number from `min` to `max`.
  CommandOption& Between(double min, double max);
  CommandOption& Positive();
  /// An existing folder.
  CommandOption& Folder();
  CommandOption& Needs(const std::string& other);
  CommandOption& Excludes(const std::string& other);
  /// An option that may be repeated takes one value each time.
  CommandOption& OneValueEach();
  /// Several values may be in one text, separated by this character.
  CommandOption& Delimiter(char between);
  /// The last value counts if there are several.
  CommandOption& TakeLast();
  /// The option may be given without a value, which is empty then.
  CommandOption& MayStandAlone();

  /// The heading under which --help lists it.
  CommandOption& Group(const std::string& heading);

  /// How often the option was given.
  std::size_t count() const;

 private:
  CLI::Option* option_;
};

/// A program, or one of its commands.
class CommandLine {
 public:
  /// A program. `name` begins the messages about a line that it refuses.
  CommandLine(const std::string& description, const std::string& name);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Adds --version.
  void SetVersion(const std::string& version);
  /// One command has to be named.
  void RequireCommand();
  /// Adds a command. `run` is called after the whole line has been read, if the line names it. The
  /// result lives as long as this object.
  CommandLine& AddCommand(const std::string& name, const std::string& help,
                          std::function<void()> run = nullptr);
  /// The end of --help.
  void SetFooter(const std::string& text);
  /// --help shows the defaults of all options that are added from here on.
  void ShowDefaults();
  /// Options of the command above may follow the name of this one.
  void FallThrough();
  /// --help and unknown options are ordinary arguments, which end in `rest`.
  void TakeRest(std::vector<std::string>& rest);

  /// Adds an option ("--name") or an argument ("name").
  CommandOption AddOption(const std::string& name, OptionTarget target,
                          const std::string& help = "");
  /// The same, with a function that gets the value.
  CommandOption AddOption(const std::string& name, std::function<void(const std::string&)> take,
                          const std::string& help);
  /// Adds a switch. It turns `value` on, or off if the name begins with '!'.
  CommandOption AddFlag(const std::string& name, bool& value, const std::string& help);
  CommandOption AddFlag(const std::string& name, std::function<void()> on, const std::string& help);

  /// The option of this name, if there is one.
  std::optional<CommandOption> Find(const std::string& name) const;

  /// Reads the line. Prints --help, --version, or what is wrong with the line; the result is then
  /// the exit code of the program: 0 or 2. Empty: the program goes on.
  std::optional<int> Parse(int argc, const char* const* argv);
  /// The text that --help prints.
  std::string Help() const;

 private:
  explicit CommandLine(CLI::App* command);
  /// Prints on stderr which option each unknown one most likely means.
  void Suggest(int argc, const char* const* argv) const;

  std::unique_ptr<CLI::App> program_;  // null for a command
  CLI::App* const app_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
};

}  // namespace millrace
