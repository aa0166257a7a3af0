#include "common/command_line/command_line.h"

#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace millrace::test {
namespace {

/// The exit code with which a line ends the program; none if the program goes on.
std::optional<int> ReadLine(CommandLine& program, std::vector<const char*> line) {
  line.insert(line.begin(), "program");
  return program.Parse(static_cast<int>(line.size()), line.data());
}

TEST_CASE("options and arguments of every type are read", "[command_line]") {
  CommandLine program("", "program");
  std::string text;
  std::uint64_t number = 0;
  double decimal = 0;
  bool on = false;
  std::optional<std::uint64_t> given;
  std::optional<std::uint64_t> left_out;
  std::vector<std::string> several;
  program.AddOption("file", &text);
  program.AddOption("--number", &number);
  program.AddOption("--decimal", &decimal);
  program.AddOption("--given", &given);
  program.AddOption("--left-out", &left_out);
  program.AddOption("--several", &several).Delimiter(',').OneValueEach();
  program.AddFlag("--on", on, "");
  CHECK_FALSE(ReadLine(program, {"--number", "7", "--decimal", "1.5", "--given", "3", "--several",
                                 "a,b", "--several", "c", "--on", "x"}));
  CHECK(text == "x");
  CHECK(number == 7);
  CHECK(decimal == 1.5);
  CHECK(given == 3u);
  CHECK_FALSE(left_out.has_value());
  CHECK(several == std::vector<std::string>{"a", "b", "c"});
  CHECK(on);
}

TEST_CASE("a line that does not fit ends the program with 2", "[command_line]") {
  std::string needed;
  std::string other;
  const auto make = [&](CommandLine& program) {
    program.AddOption("--needed", &needed).Required();
    program.AddOption("--other", &other).OneOf({"a", "b"}).Needs("--needed");
  };
  const std::vector<std::vector<const char*>> lines = {
      {}, {"--needed"}, {"--needed", "x", "--other", "c"}, {"--needed", "x", "--unknown"}};
  for (const auto& line : lines) {
    CommandLine program("", "program");
    make(program);
    CHECK(ReadLine(program, line) == 2);
  }
  CommandLine program("", "program");
  make(program);
  CHECK_FALSE(ReadLine(program, {"--needed", "x", "--other", "b"}));
}

TEST_CASE("a check may refuse a text, or change it", "[command_line]") {
  std::string text;
  const auto parse = [&](const char* value) {
    CommandLine program("", "program");
    program.AddOption("--text", &text).Check([](std::string& given) {
      if (given == "bad") return "is bad";
      given += "!";
      return "";
    });
    return ReadLine(program, {"--text", value});
  };
  CHECK(parse("bad") == 2);
  CHECK_FALSE(parse("good"));
  CHECK(text == "good!");
}

TEST_CASE("the command that is named runs, with its own options", "[command_line]") {
  CommandLine program("", "program");
  program.RequireCommand();
  std::string ran;
  std::string of_first;
  program.AddCommand("first", "", [&] { ran += "first"; }).AddOption("--option", &of_first);
  program.AddCommand("second", "", [&] { ran += "second"; });
  CHECK_FALSE(ReadLine(program, {"first", "--option", "x"}));
  CHECK(ran == "first");
  CHECK(of_first == "x");
}

TEST_CASE("no command, an unknown one, and an option of another are refused", "[command_line]") {
  for (const std::vector<const char*>& line :
       {std::vector<const char*>{}, {"third"}, {"second", "--option", "x"}}) {
    CommandLine program("", "program");
    program.RequireCommand();
    std::string option;
    program.AddCommand("first", "").AddOption("--option", &option);
    program.AddCommand("second", "");
    CHECK(ReadLine(program, line) == 2);
  }
}

TEST_CASE("help and the version end the program with 0", "[command_line]") {
  CommandLine program("What it does.", "program");
  program.SetVersion("1.2.3");
  std::uint64_t number = 5;
  program.AddOption("--number", &number, "how many").TypeName("N").ShowDefault();
  CHECK(ReadLine(program, {"--help"}) == 0);
  CHECK(ReadLine(program, {"--version"}) == 0);
  CHECK_THAT(program.Help(), Catch::Contains("What it does.") && Catch::Contains("--number N=5") &&
                                 Catch::Contains("how many"));
}

TEST_CASE("a command may take the rest of the line as it is", "[command_line]") {
  CommandLine program("", "program");
  std::vector<std::string> rest;
  std::vector<std::string> seen;
  program.AddCommand("pass", "", [&] { seen = rest; }).TakeRest(rest);
  CHECK_FALSE(ReadLine(program, {"pass", "--help", "x", "--any=1"}));
  CHECK(seen == std::vector<std::string>{"--help", "x", "--any=1"});
}

}  // namespace
}  // namespace millrace::test
