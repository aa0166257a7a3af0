#include "server/daemon/config_file.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "server/daemon/option_table.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/daemon/options_fixture.h"

namespace millrace::test {
namespace {

/// A file c.yaml in a folder of its own, which is removed with this object.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { Write(text); }
  void Write(const std::string& text) { std::ofstream(path()) << text; }
  std::string path() const { return dir_.path() / "c.yaml"; }
  Result<OptionTexts> Read() const { return ReadConfigFile(path()); }
  /// The error's text without the folder's name.
  std::string Error() const {
    const std::string message = ErrorOf(Read());
    REQUIRE(message.find(path()) == 0);
    return message.substr(path().size() - std::string("c.yaml").size());
  }

 private:
  TempDir dir_;
};

TEST_CASE("a configuration file gives options and datasets, and says where", "[config]") {
  const ConfigFile file(
      "threads: 3\nlisten: '[::1]:0'\n"
      "datasets:\n  a: /x\n  b: {path: /y, index: /z}\n");
  const OptionTexts texts = file.Read().value();
  CHECK(texts.values.size() == 2);
  CHECK(texts.values.at("threads").text == "3");
  CHECK(texts.values.at("threads").where == file.path() + ":1:10");
  CHECK(texts.values.at("listen").text == "[::1]:0");
  CHECK(texts.datasets.at("a").dataset.path == "/x");
  CHECK(texts.datasets.at("b").dataset.path == "/y");
  CHECK(texts.datasets.at("b").dataset.index == "/z");
  CHECK(texts.datasets.at("b").where == file.path() + ":5:3");
}

TEST_CASE("a file without anything in it gives nothing", "[config]") {
  const OptionTexts texts = ConfigFile("# nothing\n").Read().value();
  CHECK(texts.values.empty());
  CHECK(texts.datasets.empty());
}

TEST_CASE("an unknown key is an error with its place, the nearest and all known ones", "[config]") {
  const std::string error = ConfigFile("listen: a:1\nbatch_lissen: a:2\n").Error();
  CHECK(error.find("c.yaml:2:1: unknown key 'batch_lissen' (did you mean batch_listen?), expected "
                   "one of datasets, plugins, listen, batch_listen") == 0);
  CHECK(ConfigFile("quite_else: 1\n").Error().find("unknown key 'quite_else', expected") !=
        std::string::npos);
  CHECK(ConfigFile("dataset: {}\n").Error().find("did you mean datasets?") != std::string::npos);
}

TEST_CASE("a key that is there twice is an error with both places", "[config]") {
  CHECK(ConfigFile("threads: 1\n\nthreads: 2\n").Error() ==
        "c.yaml:3:1: duplicate key 'threads', first written at line 1");
}

TEST_CASE("what is not one value is an error with its place", "[config]") {
  CHECK(ConfigFile("threads: [1]\n").Error() ==
        "c.yaml:1:10: option threads: expected one value, got a list");
  CHECK(ConfigFile("threads:\n").Error().find("expected one value, got null") != std::string::npos);
  CHECK(ConfigFile("threads\n").Error().find("c.yaml:1:1: expected a map of options") == 0);
}

TEST_CASE("a dataset is a folder, or a path and an index", "[config]") {
  CHECK(ConfigFile("datasets: /x\n").Error() ==
        "c.yaml:1:11: datasets: expected a map of id to folder, got '/x'");
  CHECK(ConfigFile("datasets: {a: [x]}\n").Error() ==
        "c.yaml:1:15: datasets.a: expected a folder, or {path: …, index: …}");
  CHECK(ConfigFile("datasets: {a: {index: x}}\n").Error() ==
        "c.yaml:1:15: datasets.a: expected a folder, or {path: …, index: …}");
  CHECK(ConfigFile("datasets: {a: {paht: x}}\n").Error() ==
        "c.yaml:1:16: datasets.a: unknown key 'paht', expected path or index");
  CHECK(ConfigFile("datasets: {a: {path: []}}\n").Error() ==
        "c.yaml:1:22: datasets.a: expected a path, got a list");
}

TEST_CASE("a plugin is a folder, or a path with what its processes need", "[config]") {
  const ConfigFile file(
      "plugins:\n  speech: /srv/plugins\n"
      "  text: {path: /x, python: /venv/bin/python, processes: 3, memory: 4GiB, start_timeout: 9,\n"
      "         env: {DATA: /data, EMPTY: ''}}\n");
  const OptionTexts texts = file.Read().value();
  const PluginConfig& speech = texts.plugins.at("speech").plugin;
  CHECK(speech.name == "speech");
  CHECK(speech.path == "/srv/plugins");
  CHECK(speech.python == "python3");
  CHECK(speech.processes == 0);  // as many as the host has CPUs
  CHECK(texts.plugins.at("speech").where == file.path() + ":2:3");
  const PluginConfig& text = texts.plugins.at("text").plugin;
  CHECK(text.path == "/x");
  CHECK(text.python == "/venv/bin/python");
  CHECK(text.processes == 3);
  CHECK(text.memory == std::uint64_t{4} << 30);
  CHECK(text.start_timeout == std::chrono::seconds(9));
  CHECK(text.env == std::map<std::string, std::string>{{"DATA", "/data"}, {"EMPTY", ""}});
}

TEST_CASE("what is wrong with a plugin of a file is told with its place", "[config]") {
  CHECK(ConfigFile("plugins: /x\n").Error() ==
        "c.yaml:1:10: plugins: expected a map of name to folder, got '/x'");
  CHECK(ConfigFile("plugins: {a: [x]}\n").Error() ==
        "c.yaml:1:14: plugins.a: expected a folder, or {path: …, python: …}");
  CHECK(ConfigFile("plugins: {a: {python: x}}\n").Error() ==
        "c.yaml:1:14: plugins.a: expected a folder, or {path: …, python: …}");
  CHECK(ConfigFile("plugins: {a: {path: /x, pyhton: x}}\n").Error() ==
        "c.yaml:1:33: plugins.a.pyhton: unknown key, expected one of path, python, processes, "
        "memory, env, start_timeout");
  CHECK(ConfigFile("plugins: {a: {path: /x, processes: 0}}\n")
            .Error()
            .find("c.yaml:1:36: plugins.a.processes: ") == 0);
  CHECK(ConfigFile("plugins: {a: {path: /x, memory: much}}\n")
            .Error()
            .find("c.yaml:1:33: plugins.a.memory: ") == 0);
  CHECK(ConfigFile("plugins: {a: {path: /x, env: [A]}}\n").Error() ==
        "c.yaml:1:30: plugins.a.env: expected a map of names to values, got a list");
  CHECK(ConfigFile("plugins: {a: {path: /x, env: {A: [1]}}}\n").Error() ==
        "c.yaml:1:30: plugins.a.env: A: expected one value, got a list");
}

TEST_CASE("a plugin that cannot be used is refused with its place", "[config]") {
  const TempDir dir;
  std::ofstream(dir / "speech.py") << "";
  const std::string folder = dir.path().string();
  const auto error = [&](const std::string& text) {
    const ConfigFile file(text);
    return ErrorOf(EffectiveOptions(Role::kWorker, file.path(), {}, SomeHost(), ProductKinds()));
  };
  CHECK(error("plugins: {text: " + folder + "}\n").find("c.yaml:1:11: ") != std::string::npos);
  CHECK(error("plugins: {text: " + folder + "}\n").find("its modules are speech") !=
        std::string::npos);
  CHECK(error("plugins: {speech: /no/such/folder}\n").find("/no/such/folder is no folder") !=
        std::string::npos);
  CHECK(error("plugins: {speech: {path: " + folder + ", python: /no/python}}\n")
            .find("the plugin speech: python /no/python is no program") != std::string::npos);
  CHECK(error("plugins: {a.b: " + folder + "}\n").find("expected the name of a Python module") !=
        std::string::npos);
}

TEST_CASE("a daemon with plugins needs no dataset, and prints them so that they read back",
          "[config]") {
  const TempDir dir;
  std::ofstream(dir / "speech.py") << "";
  const ConfigFile file("plugins: {speech: {path: " + dir.path().string() +
                        ", python: /bin/sh, memory: 1GiB, env: {A: 'b, {c}: #'}}}\n");
  OptionTexts flags;
  REQUIRE(AddPlugin("other=" + dir.path().string(), flags).ok());
  CHECK_FALSE(AddPlugin("other=/x", flags).ok());
  CHECK_FALSE(AddPlugin("other", flags).ok());
  flags.plugins.clear();
  const DaemonOptions options =
      EffectiveOptions(Role::kServe, file.path(), flags, SomeHost(), ProductKinds()).value();
  CHECK(options.plugins.at("speech").processes == 8);
  const ConfigFile again(PrintConfig(options));
  const DaemonOptions read =
      EffectiveOptions(Role::kServe, again.path(), {}, SomeHost(), ProductKinds()).value();
  const PluginConfig& speech = read.plugins.at("speech");
  CHECK(speech.path == dir.path());
  CHECK(speech.python == "/bin/sh");
  CHECK(speech.memory == std::uint64_t{1} << 30);
  CHECK(speech.env == std::map<std::string, std::string>{{"A", "b, {c}: #"}});
  CHECK(PrintConfig(read) == PrintConfig(options));
}

TEST_CASE("a file that is not there, and a folder, are errors", "[config]") {
  CHECK(ReadConfigFile("/no/such/file").status() ==
        NotFound("configuration /no/such/file: no such file, or not readable"));
  CHECK(ReadConfigFile("/").status() ==
        InvalidArgument("configuration /: is a folder, expected a YAML file"));
}

TEST_CASE("flags win over the file, and the file over defaults", "[config]") {
  const ConfigFile file("threads: 3\ngrace: 7\ndatasets: {data: /no/such/folder, more: /tmp}\n");
  const DaemonOptions options =
      EffectiveOptions(Role::kServe, file.path(), Given({{"threads", "5"}}), SomeHost(),
                       ProductKinds())
          .value();
  CHECK(options.threads == 5);
  CHECK(options.grace == 7);
  CHECK(options.attach_timeout == 60);
  CHECK(options.datasets.at("data").path == std::filesystem::temp_directory_path());
  CHECK(options.datasets.at("more").path == "/tmp");
}

TEST_CASE("a value that is wrong is an error with its place in the file", "[config]") {
  const ConfigFile file("grace: 7\nthreads: 2.7\n");
  CHECK(
      ErrorOf(EffectiveOptions(Role::kServe, file.path(), Given({}), SomeHost(), ProductKinds())) ==
      file.path() + ":2:10: option threads: expected an integer from 1 to 1024, got '2.7'");
  // A value is not checked if a flag replaces it.
  CHECK(EffectiveOptions(Role::kServe, file.path(), Given({{"threads", "2"}}), SomeHost(),
                         ProductKinds())
            .ok());
}

/// Values that differ from the defaults; odd ones if an option takes any text.
const std::map<std::string, std::string>& OtherValues() {
  static const std::map<std::string, std::string> values = {{"listen", "[::]:0"},
                                                            {"batch_listen", "*:7"},
                                                            {"advertise", "[fe80::1]:9"},
                                                            {"dispatcher", "a:1,b:2"},
                                                            {"metrics_listen", "localhost:0"},
                                                            {"metrics_page", "true"},
                                                            {"metrics_tls", "false"},
                                                            {"health_listen", "localhost:1"},
                                                            {"state", "/tmp/a, b: \"c\" # d\n"},
                                                            {"store", "etcd://a:1,b:2/p"},
                                                            {"memory_limit", "300MB"},
                                                            {"threads", "3"},
                                                            {"tune", "off"},
                                                            {"grace", "0.1"},
                                                            {"attach_timeout", "1e-1"},
                                                            {"name", "- true"},
                                                            {"log_level", "off"},
                                                            {"log_json", "true"},
                                                            {"shared_memory", "false"},
                                                            {"skip_bad", "true"},
                                                            {"in_memory", "data"},
                                                            {"cache_bytes", "100MB"},
                                                            {"cache_dir", "/tmp/c: #d"},
                                                            {"cache_dir_bytes", "3GiB"},
                                                            {"tls", ""},
                                                            {"etcd_tls", ""},
                                                            {"access", ""},
                                                            {"insecure", "true"},
                                                            {"shared_memory_group", "a: b"}};
  return values;
}

TEST_CASE("what is printed reads back as the same options", "[config]") {
  REQUIRE(OtherValues().size() == OptionTable().size());
  const TempDir folder;  // of no kind
  for (const Role role : {Role::kDispatcher, Role::kWorker, Role::kServe}) {
    for (const auto& values : {std::map<std::string, std::string>(), OtherValues()}) {
      OptionTexts texts = Given(values);
      texts.datasets["-"] = {{"/tmp", "/an index, {odd}"}, ""};
      texts.datasets["data"] = {{folder.path().string(), ""}, ""};  // that in_memory names
      const DaemonOptions options = MakeOptions(role, texts, SomeHost(), ProductKinds()).value();
      const ConfigFile file(PrintConfig(options));
      const DaemonOptions read =
          EffectiveOptions(role, file.path(), {}, SomeHost(), ProductKinds()).value();
      CHECK(PrintConfig(read) == PrintConfig(options));
      for (const std::string& name : ChangedOptions(options, read)) {
        for (const Option& option : OptionTable()) {
          CHECK_FALSE((option.parameter.name == name && option.IsOf(role)));
        }
      }
      CHECK(read.datasets.at("-").index == "/an index, {odd}");
    }
  }
}

TEST_CASE("a role prints its own options only, with help, bounds and default", "[config]") {
  const std::string config = PrintConfig(Make({}, Role::kWorker).value());
  CHECK(config.find("# millraced worker\n") == 0);
  CHECK(config.find("threads: 8  # batches built at once; tuned up to this number unless it is "
                    "given, an integer from 1 to 1024 [the CPUs of affinity and cgroup]\n") !=
        std::string::npos);
  CHECK(config.find("\ndispatcher: 127.0.0.1:7700") != std::string::npos);
  CHECK(config.find("attach_timeout") == std::string::npos);
}

}  // namespace
}  // namespace millrace::test
