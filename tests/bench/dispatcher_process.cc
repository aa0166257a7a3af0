#include "tests/bench/dispatcher_process.h"

#include <unistd.h>

#include <fstream>

#include <fmt/core.h>

#include "common/transport/grpc/grpc_server.h"
#include "server/dispatcher/service/dispatcher_service.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/dispatcher_fleet.h"
#include "tests/bench/heap.h"
#include "tests/support/memory_store.h"

namespace millrace::bench {
namespace {

/// Tells the port, 0 if nothing listens, and runs until the parent ends it.
void Serve(int parent) {
  Heap::Stop();
  auto service = DispatcherService::Start({}, std::make_shared<MemoryStore>(), MakeBenchCompiler(),
                                          std::make_shared<SystemClock>(), MakeNullLogger());
  GrpcServerOptions options;
  options.listen = "127.0.0.1:0";
  std::unique_ptr<GrpcServer> server;
  if (service.ok()) {
    (*service)->SetDataset("stdlib", BenchDataset());
    auto started = GrpcServer::Start(options, std::shared_ptr<DispatcherEndpoint>(*service));
    if (started.ok()) server = *std::move(started);
  }
  Child::Tell(parent, server ? server->port() : 0);
  while (server) pause();
}

}  // namespace

DispatcherProcess::DispatcherProcess() : child_(Serve), port_(static_cast<int>(child_.Hear())) {}

Result<std::unique_ptr<DispatcherProcess>> DispatcherProcess::Start() {
  auto process = std::unique_ptr<DispatcherProcess>(new DispatcherProcess());
  if (process->port_ <= 0) return Internal("the dispatcher did not start");
  return process;
}

std::string DispatcherProcess::address() const { return fmt::format("127.0.0.1:{}", port_); }

double DispatcherProcess::CpuSeconds() const { return ProcessCpuSeconds(child_.pid()); }

double DispatcherProcess::AnonymousBytes() const {
  std::ifstream in(fmt::format("/proc/{}/status", child_.pid()));
  std::string key;
  double kilobytes = 0;
  while (in >> key) {
    if (key == "RssAnon:" && in >> kilobytes) return kilobytes * 1024;
    std::getline(in, key);
  }
  return 0;
}

}  // namespace millrace::bench
