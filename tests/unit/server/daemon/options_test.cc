#include "server/daemon/options.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/daemon/option_table.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/daemon/options_fixture.h"

namespace millrace::test {
namespace {

std::string ErrorOfOption(const std::string& name, const std::string& text) {
  return ErrorOf(Make({{name, text}}));
}

TEST_CASE("options that nobody gives have their defaults", "[options]") {
  const DaemonOptions options = Make({}).value();
  CHECK(options.listen == "127.0.0.1:7700");
  CHECK(options.batch_listen == "127.0.0.1:7701");
  CHECK(options.advertise.empty());
  CHECK(options.metrics_listen.empty());
  CHECK(options.health_listen.empty());
  CHECK(options.store.empty());
  CHECK(options.state == DefaultStateFolder());
  CHECK(options.memory_limit == 800'000'000);
  CHECK(options.batch_memory() == 200'000'000);
  CHECK(options.threads == 8);
  CHECK(options.grace == 10);
  CHECK(options.attach_timeout == 60);
  CHECK(options.name == Whereabouts());
  CHECK(options.log_level == LogLevel::kInfo);
  CHECK(options.shared_memory);
  CHECK_FALSE(options.skip_bad);
  CHECK_FALSE(options.log_json);
}

TEST_CASE("the default of threads is no more than the most that may be given", "[options]") {
  HostLimits host = SomeHost();
  host.cpus = 5000;
  CHECK(MakeOptions(Role::kServe, Given({}), host, ProductKinds())->threads == 1024);
}

TEST_CASE("a whole number is refused with the bounds if it is none or beyond them", "[options]") {
  CHECK(Make({{"threads", "1"}})->threads == 1);
  CHECK(Make({{"threads", "1024"}})->threads == 1024);
  for (const char* text : {"2.7", "many", "0", "1025", "-1", "0x2", " 2", "2e1"}) {
    CAPTURE(text);
    CHECK(ErrorOfOption("threads", text) ==
          std::string("option threads: expected an integer from 1 to 1024, got '") + text +
              "'");
  }
}

TEST_CASE("seconds are refused with the bounds if they are none or beyond them", "[options]") {
  CHECK(Make({{"grace", "0"}})->grace == 0);
  CHECK(Make({{"grace", "86400"}})->grace == 86400);
  CHECK(Make({{"attach_timeout", "0.1"}})->attach_timeout == 0.1);
  for (const char* text : {"-1", "86401", "nan", "inf", "soon", "", "5s"}) {
    CAPTURE(text);
    CHECK(ErrorOfOption("grace", text) ==
          std::string("option grace: expected a number of seconds from 0 to 86400, got '") + text +
              "'");
  }
  CHECK(ErrorOfOption("attach_timeout", "0") ==
        "option attach_timeout: expected at least 0.1 seconds, got '0'");
}

TEST_CASE("memory has units, a least, and at most what the host has", "[options]") {
  CHECK(Make({{"memory_limit", "300MB"}})->memory_limit == 300'000'000);
  CHECK(Make({{"memory_limit", "16MiB"}})->memory_limit == 16 << 20);
  CHECK(Make({{"memory_limit", "1000000000"}})->memory_limit == 1'000'000'000);
  CHECK(ErrorOfOption("memory_limit", "3 apples") ==
        "option memory_limit: expected bytes, such as 4096, 300MB or 4GiB, got '3 apples'");
  CHECK(ErrorOfOption("memory_limit", "16777215") ==
        "option memory_limit: expected a number of bytes of at least 16MiB, got '16777215'");
  CHECK(ErrorOfOption("memory_limit", "1GiB") ==
        "option memory_limit: expected at most the machine's 1000000000 bytes, got '1GiB'");
}

TEST_CASE("threads that are given are not tuned, and tuning is on or off", "[options]") {
  CHECK(Make({})->tune);
  CHECK_FALSE(Make({})->threads_given);
  CHECK(Make({{"threads", "2"}})->threads_given);
  CHECK_FALSE(Make({{"tune", "off"}})->tune);
  CHECK(ErrorOfOption("tune", "false") == "option tune: expected on or off, got 'false'");
}

TEST_CASE("a switch is true or false", "[options]") {
  CHECK(Make({{"skip_bad", "true"}})->skip_bad);
  CHECK_FALSE(Make({{"shared_memory", "false"}})->shared_memory);
  for (const char* text : {"yes", "1", "True", ""}) {
    CHECK(ErrorOfOption("log_json", text) ==
          std::string("option log_json: expected true or false, got '") + text + "'");
  }
}

TEST_CASE("a log level is one of five, and a mistyped one has a suggestion", "[options]") {
  CHECK(Make({{"log_level", "off"}})->log_level == LogLevel::kOff);
  CHECK(ErrorOfOption("log_level", "warnin") ==
        "option log_level: expected one of debug, info, warning, error, off, got 'warnin' (did you "
        "mean "
        "warning?)");
}

TEST_CASE("an address to listen on may have port 0, one to connect to may not", "[options]") {
  CHECK(Make({{"listen", "[::1]:0"}})->listen == "[::1]:0");
  CHECK(Make({{"metrics_listen", "0.0.0.0:65535"}})->metrics_listen == "0.0.0.0:65535");
  CHECK(ErrorOfOption("listen", "localhost") ==
        "option listen: expected host:port with a port from 0 to 65535, got 'localhost'");
  CHECK(ErrorOfOption("batch_listen", "a:65536").find("got 'a:65536'") != std::string::npos);
  CHECK(ErrorOfOption("health_listen", ":1").find("got ':1'") != std::string::npos);
  CHECK(ErrorOfOption("listen", "").find("got ''") != std::string::npos);
  CHECK(Make({{"advertise", "a:0"}})->advertise == "a:0");
  CHECK(ErrorOfOption("advertise", "a") ==
        "option advertise: expected host:port with a port from 0 to 65535, got 'a'");
  CHECK(ErrorOfOption("dispatcher", "a:0") ==
        "option dispatcher: expected host:port with a port from 1 to 65535, got 'a:0'");
  CHECK(Make({{"dispatcher", "a:1,b:2"}})->dispatcher == "a:1,b:2");
  CHECK(ErrorOfOption("dispatcher", "a:1,b").find("got 'b'") != std::string::npos);
}

TEST_CASE("a store is an address of etcd", "[options]") {
  CHECK(Make({{"store", "etcd://a:1,b:2/p"}})->store == "etcd://a:1,b:2/p");
  for (const char* text : {"a:1", "etcd://a/p", "etcd://a:99999/p", "etcd://a:0/p"}) {
    CHECK(ErrorOfOption("store", text) ==
          std::string("option store: expected etcd://host:port,host:port/prefix, or etcds:// for "
                      "TLS, got '") +
              text + "'");
  }
}

TEST_CASE("consumers are told an address that they can reach", "[options]") {
  for (const std::string wildcard : {"0.0.0.0:1", "[::]:1", "*:1"}) {
    CHECK(ErrorOfOption("batch_listen", wildcard) ==
          "option advertise: needed if batch_listen is " + wildcard +
              ": give host:port as consumers reach it");
    CHECK(ErrorOfOption("advertise", wildcard) ==
          "option advertise: expected an address that consumers can reach, got '" + wildcard + "'");
    CHECK(Make({{"batch_listen", wildcard}, {"advertise", "a:1"}, {"insecure", "true"}}).ok());
    CHECK(Make({{"batch_listen", wildcard}}, Role::kDispatcher).ok());
  }
}

TEST_CASE("an address that other hosts reach needs tls, or a word that it does not", "[options]") {
  const std::string reached = GENERATE("0.0.0.0:1", "[::]:1", "10.0.0.1:1", "gpu7:1");
  const std::string option = GENERATE("listen", "batch_listen");
  std::map<std::string, std::string> given{{option, reached}, {"advertise", "a:1"}};
  const auto refused = Make(given);
  CHECK(refused.status().code() == StatusCode::kInvalidArgument);
  CHECK(refused.status().message() ==
        "option " + option + ": other hosts can connect to " + reached +
            ", and could read datasets and end jobs: give --tls DIR (`millrace certs` makes "
            "certificates), or --insecure inside a network that you trust");
  given["tls"] = "/etc/millrace/tls";
  CHECK(Make(given).ok());
  given["insecure"] = "true";
  CHECK(Make(given).status().message() ==
        "option insecure: expected without tls, which is given too");
  given.erase("tls");
  CHECK(Make(given).ok());
}

TEST_CASE("an access file needs tls", "[options]") {
  CHECK(Make({{"access", "/etc/millrace/access.yml"}}).status().message() ==
        "option access: needs tls, since without it nobody proves a name");
  CHECK(Make({{"access", "/etc/millrace/access.yml"}, {"tls", "/etc/millrace/tls"}}).ok());
}

TEST_CASE("TLS for the HTTP port needs tls, and then asks everybody who it is", "[options]") {
  CHECK(Make({{"metrics_tls", "true"}}).status().message() ==
        "option metrics_tls: needs tls, the folder with its certificate");
  std::map<std::string, std::string> given{{"metrics_tls", "true"}, {"tls", "/etc/millrace/tls"}};
  CHECK(Make(given)->metrics_tls);
  given["metrics_page"] = "true";
  CHECK(
      Make(given).status().message() ==
      "option metrics_page: expected without metrics_tls, by which the page asks everybody who it "
      "is");
  CHECK(Make({{"metrics_page", "true"}})->metrics_page);
}

TEST_CASE("an empty text asks for a default that is none or the host's", "[options]") {
  const DaemonOptions options =
      Make({{"advertise", ""}, {"threads", ""}, {"memory_limit", ""}, {"state", ""}, {"name", ""}})
          .value();
  CHECK(options.advertise.empty());
  CHECK(options.threads == 8);
  CHECK(options.memory_limit == 800'000'000);
  CHECK(options.state == DefaultStateFolder());
  CHECK(options.name == Whereabouts());
}

TEST_CASE("a default beyond the bounds is refused as if it were given", "[options]") {
  HostLimits host = SomeHost();
  host.memory_bytes = 10 << 20;
  CHECK(ErrorOf(MakeOptions(Role::kServe, Given({}), host, ProductKinds())) ==
        "option memory_limit: expected a number of bytes of at least 16MiB, got '8388608'");
}

TEST_CASE("an error says where the text was given", "[options]") {
  OptionTexts texts = Given({});
  texts.values["threads"] = {"2.7", "config.yaml:3:10"};
  CHECK(ErrorOf(MakeOptions(Role::kServe, texts, SomeHost(), ProductKinds())) ==
        "config.yaml:3:10: option threads: expected an integer from 1 to 1024, got '2.7'");
  texts = Given({});
  texts.values["batch_listen"] = {"*:1", "config.yaml:4:15"};
  CHECK(ErrorOf(MakeOptions(Role::kServe, texts, SomeHost(), ProductKinds()))
            .find("config.yaml:4:15: option advertise: needed") == 0);
  texts = Given({});
  texts.datasets["no"] = {{"/no/such/folder", ""}, "config.yaml:5:3"};
  CHECK(ErrorOf(MakeOptions(Role::kServe, texts, SomeHost(), ProductKinds())) ==
        "config.yaml:5:3: dataset no: /no/such/folder is no folder that can be read");
}

TEST_CASE("a dataset may be told its kind, which has to be known", "[options]") {
  const std::string folder = std::filesystem::temp_directory_path();
  OptionTexts texts;
  REQUIRE(AddDataset("a=coq:" + folder, texts).ok());
  const DaemonOptions options =
      MakeOptions(Role::kServe, texts, SomeHost(), ProductKinds()).value();
  CHECK(options.datasets.at("a").kind == "coq");
  CHECK(options.datasets.at("a").path == folder);
  texts.datasets["b"] = {{"tree:" + folder, ""}, "config.yaml:5:3"};
  CHECK(ErrorOf(MakeOptions(Role::kServe, texts, SomeHost(), ProductKinds())) ==
        "config.yaml:5:3: dataset b: there is no kind of dataset 'tree': expected one of graph, "
        "records, tokens, "
        "coq, python");
}

TEST_CASE("datasets of the command line have an id and a folder, each once", "[options]") {
  OptionTexts texts;
  REQUIRE(AddDataset("a=/x=y", texts).ok());
  CHECK(texts.datasets["a"].dataset.path == "/x=y");
  CHECK(AddDataset("a=/z", texts).message() ==
        "option dataset: 'a=/z': a was given before, as /x=y; give each dataset once");
  for (const char* text : {"a", "=x", "a=", ""}) {
    CHECK(AddDataset(text, texts) ==
          InvalidArgument(std::string("option dataset: expected ID=DIR, got '") + text + "'"));
  }
  for (const Role role : {Role::kServe, Role::kWorker}) {
    CHECK(ErrorOf(MakeOptions(role, {}, SomeHost(), ProductKinds()))
              .find("no dataset: give --dataset") == 0);
  }
  // Workers may have the plugins of a pipeline, and the dispatcher nothing.
  CHECK(MakeOptions(Role::kDispatcher, {}, SomeHost(), ProductKinds()).ok());
  OptionTexts odd = Given({});
  odd.datasets["a/b"] = odd.datasets["data"];
  CHECK(ErrorOf(MakeOptions(Role::kServe, odd, SomeHost(), ProductKinds())).find("got 'a/b'") !=
        std::string::npos);
}

TEST_CASE("the cache of examples gets a quarter of the memory, or what it is given", "[options]") {
  CHECK(Make({})->cache_bytes == 200'000'000);
  CHECK(Make({{"memory_limit", "400MB"}})->cache_bytes == 100'000'000);
  CHECK(Make({{"cache_bytes", "0"}})->cache_bytes == 0);
  CHECK(Make({{"cache_bytes", "300MB"}})->cache_bytes == 300'000'000);
  CHECK(Make({})->cache_dir.empty());
  CHECK(Make({})->cache_dir_bytes == std::uint64_t{16} << 30);
  CHECK(ErrorOfOption("cache_bytes", "900MB") ==
        "option cache_bytes: expected at most memory_limit, 800000000 bytes, got '900MB'");
  CHECK(ErrorOfOption("cache_dir_bytes", "much") ==
        "option cache_dir_bytes: expected bytes, such as 4096, 300MB or 4GiB, got 'much'");
}

TEST_CASE("datasets that are copied into memory are graph datasets by their ids", "[options]") {
  const TempDir dir;
  const auto make = [&](const std::string& ids) {
    OptionTexts texts = Given({{"in_memory", ids}});
    for (const char* const id : {"g", "h", "records"}) {
      std::filesystem::create_directory(dir / id);
      texts.datasets[id] = {{(dir / id).string(), ""}, ""};
    }
    std::ofstream(dir / "g" / "graph.json") << "{}";
    std::ofstream(dir / "h" / "graph.json") << "{}";
    std::ofstream(dir / "records" / "a.tfrecord") << "x";
    return MakeOptions(Role::kServe, texts, SomeHost(), ProductKinds());
  };
  CHECK_FALSE(make("").value().datasets.at("g").in_memory);
  const DaemonOptions options = make("g,h").value();
  CHECK(options.datasets.at("g").in_memory);
  CHECK(options.datasets.at("h").in_memory);
  CHECK_FALSE(options.datasets.at("records").in_memory);
  CHECK(ErrorOf(make("g,other")) == "option in_memory: no dataset has the id 'other'");
  CHECK(ErrorOf(make("g,records")) ==
        "option in_memory: dataset 'records' is of kind records: expected a graph dataset");
  CHECK(ErrorOf(make("a b")) ==
        "option in_memory: expected ids of datasets, with commas between, got 'a b'");
}

TEST_CASE("options that differ are named", "[options]") {
  const DaemonOptions before = Make({{"name", "n"}}).value();
  CHECK(ChangedOptions(before, before).empty());
  CHECK(ChangedOptions(before,
                       Make({{"name", "n"}, {"threads", "3"}, {"log_level", "off"}}).value()) ==
        std::vector<std::string>{"threads", "log_level"});
}

TEST_CASE("every option is on the page for operators, with its default", "[options]") {
  std::ifstream in(std::string(MILLRACE_SOURCE_DIR) + "/docs/reference/options.md");
  std::stringstream page;
  page << in.rdbuf();
  const std::string text = page.str();
  for (const Option& option : OptionTable()) {
    CAPTURE(option.parameter.name);
    const std::size_t at = text.find("`" + option.parameter.name + "`");
    REQUIRE(at != std::string::npos);
    const std::string row = text.substr(at, text.find('\n', at) - at);
    if (option.otherwise.fixed) CHECK(row.find(option.otherwise.shown) != std::string::npos);
  }
}

}  // namespace
}  // namespace millrace::test
