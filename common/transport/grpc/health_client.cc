#include "common/transport/grpc/health_client.h"

#include <fmt/core.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "common/transport/grpc/grpc_deadline.h"
#include "common/transport/grpc/grpc_status.h"

namespace millrace {
namespace {

// Both messages are so small that their bytes are written out: field 1, a text or a number.
constexpr char kTextField = '\x0a';
constexpr char kNumberField = '\x08';
constexpr char kServing = 1;

std::string RequestOf(const std::string& service) {
  if (service.empty()) return {};
  return std::string{kTextField, static_cast<char>(service.size())} + service;
}

}  // namespace

Status CheckHealth(const std::string& address, const std::string& service, double timeout_seconds) {
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  grpc::GenericStub stub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args));
  grpc::ClientContext context;
  context.set_deadline(SecondsFromNow(timeout_seconds));
  const grpc::Slice sent(RequestOf(service));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(&sent, 1), &queue);
  grpc::ByteBuffer answer;
  grpc::Status end;
  void* tag = nullptr;
  bool ok = false;
  call->StartCall();
  call->Finish(&answer, &end, &queue);
  queue.Next(&tag, &ok);
  const std::string name = service.empty() ? "health" : service;
  if (!end.ok()) return FromGrpcStatus(end).WithContext(fmt::format("{} at {}", name, address));
  grpc::Slice slice;
  const bool serving = answer.DumpToSingleSlice(&slice).ok() && slice.size() == 2 &&
                       slice.begin()[0] == kNumberField && slice.begin()[1] == kServing;
  if (serving) return OkStatus();
  return Unavailable(fmt::format("{} at {}: it does not serve", name, address));
}

}  // namespace millrace
