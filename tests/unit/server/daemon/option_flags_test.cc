#include "server/daemon/option_flags.h"

#include "server/daemon/option_table.h"
#include "tests/unit/server/daemon/options_fixture.h"

namespace millrace::test {
namespace {

/// The flags of a command line; none if it is refused.
std::optional<OptionFlags> Parse(const std::vector<const char*>& line, Role role = Role::kServe) {
  CommandLine program("", "millraced");
  std::optional<OptionFlags> flags(std::in_place);
  AddOptionFlags(program, role, *flags);
  std::vector<const char*> all = {"millraced"};
  all.insert(all.end(), line.begin(), line.end());
  const std::optional<int> code = program.Parse(static_cast<int>(all.size()), all.data());
  if (!code) return flags;
  CHECK(*code == 2);
  return std::nullopt;
}

/// The text of one option of a line.
std::string Text(const std::vector<const char*>& line, const std::string& option) {
  return Parse(line).value().texts.values.at(option).text;
}

TEST_CASE("each option is a flag of the roles that have it, with its help", "[flags]") {
  for (const Role role : {Role::kDispatcher, Role::kWorker, Role::kServe}) {
    CommandLine program("", "millraced");
    OptionFlags flags;
    AddOptionFlags(program, role, flags);
    const std::string help = program.Help();
    for (const Option& option : OptionTable()) {
      CAPTURE(option.parameter.name);
      REQUIRE(program.Find(option.Flag()).has_value() == option.IsOf(role));
      if (option.IsOf(role)) CHECK_THAT(help, Catch::Contains(option.Help()));
    }
  }
}

TEST_CASE("only flags that are given are in the texts", "[flags]") {
  const OptionFlags flags =
      Parse({"--batch-listen", "a:1", "--dataset", "a=/x", "--dataset", "b=/y"}).value();
  const OptionTexts texts = flags.Texts().value();
  CHECK(texts.values.size() == 1);
  CHECK(texts.values.at("batch_listen").text == "a:1");
  CHECK(texts.values.at("batch_listen").where.empty());
  CHECK(texts.datasets.at("a").dataset.path == "/x");
  CHECK(texts.datasets.at("b").dataset.path == "/y");
}

TEST_CASE("a flag that is given twice has its last value", "[flags]") {
  CHECK(Text({"--threads", "1", "--threads", "2"}, "threads") == "2");
}

TEST_CASE("a switch that is off by default needs no value", "[flags]") {
  CHECK(Text({"--skip-bad"}, "skip_bad") == "true");
  CHECK(Text({"--skip-bad", "false"}, "skip_bad") == "false");
  CHECK(Text({"--log-json", "--grace", "1"}, "log_json") == "true");
  CHECK_FALSE(Parse({"--shared-memory"}).has_value());
}

TEST_CASE("a flag that is unknown, or of another role, is refused", "[flags]") {
  CHECK_FALSE(Parse({"--lissen", "a:1"}).has_value());
  CHECK_FALSE(Parse({"--threads", "1"}, Role::kDispatcher).has_value());
}

TEST_CASE("a dataset of the command line is checked when the texts are asked for", "[flags]") {
  CHECK(ErrorOf(Parse({"--dataset", "a"})->Texts()) == "option dataset: expected ID=DIR, got 'a'");
  CHECK(ErrorOf(Parse({"--dataset", "a=b", "--dataset", "a=c"})->Texts())
            .find("give each dataset once") != std::string::npos);
}

}  // namespace
}  // namespace millrace::test
