#include "server/daemon/metrics_exporter.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include <catch2/catch.hpp>

namespace millrace::test {
namespace {

/// The answer to HTTP's GET `path` on this host.
std::string Get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  REQUIRE(send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<std::size_t>(got));
  }
  close(fd);
  return answer;
}

TEST_CASE("the page has values, help and types of the metrics of its roles", "[metrics]") {
  const auto exporter = MetricsExporter::Start(
      "127.0.0.1:0", {.dispatcher = false, .worker = true}, [](MetricSet& metrics) {
        metrics.Add(Metric::kBuildInfo, {"1.2.3"}, 1);
        metrics.Add(Metric::kFileVerifyFailures, {"changed"}, 7);
      });
  REQUIRE(exporter.ok());
  const std::string page = Get((*exporter)->port(), "/metrics");
  std::size_t of_worker = 0;
  for (const MetricSpec& spec : MetricTable()) {
    CAPTURE(spec.name);
    CHECK((page.find("# HELP " + std::string(spec.name) + " ") != std::string::npos) ==
          spec.of_worker);
    of_worker += spec.of_worker ? 1 : 0;
  }
  CHECK(of_worker > 0);
  CHECK(of_worker < MetricTable().size());
  CHECK(page.find("{version=\"1.2.3\"} 1") != std::string::npos);
  CHECK(page.find("=\"changed\"} 7") != std::string::npos);
}

TEST_CASE("values are asked for with each request", "[metrics]") {
  int asked = 0;
  const auto exporter = MetricsExporter::Start(
      "127.0.0.1:0", {.dispatcher = true, .worker = true},
      [&asked](MetricSet& metrics) { metrics.Add(Metric::kTerm, {}, ++asked); });
  REQUIRE(exporter.ok());
  CHECK(Get((*exporter)->port(), "/metrics").find("_term 1\n") != std::string::npos);
  CHECK(Get((*exporter)->port(), "/metrics").find("_term 2\n") != std::string::npos);
}

TEST_CASE("a busy port, and an address of another machine, are refused", "[metrics]") {
  const auto none = [](MetricSet&) {};
  const auto first = MetricsExporter::Start("127.0.0.1:0", {}, none);
  REQUIRE(first.ok());
  const std::string same = "127.0.0.1:" + std::to_string((*first)->port());
  const Status busy = MetricsExporter::Start(same, {}, none).status();
  CHECK(busy.code() == StatusCode::kAlreadyExists);
  CHECK(busy.message().find(same) != std::string::npos);
  CHECK(MetricsExporter::Start("192.0.2.1:0", {}, none).status().code() ==
        StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::test
