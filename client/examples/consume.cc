// Reads every batch of some epochs of a job as rank 0 of 1, and prints what is in them.
//
//   consume ADDRESS PIPELINE.yaml [EPOCHS]

#include <charconv>
#include <cstdio>
#include <cstring>

#include "client/session.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s ADDRESS PIPELINE.yaml [EPOCHS]\n", argv[0]);
    return 2;
  }
  millrace::SessionOptions options;
  options.address = argv[1];
  options.pipeline_file = argv[2];
  options.job = "example";
  options.epochs = 1;
  if (argc > 3) {
    const char* const last = argv[3] + std::strlen(argv[3]);
    const auto [end, error] = std::from_chars(argv[3], last, options.epochs);
    if (error != std::errc() || end != last) {
      std::fprintf(stderr, "EPOCHS: expected an integer, got '%s'\n", argv[3]);
      return 2;
    }
  }

  auto connected = millrace::Session::Connect(options);
  if (!connected.ok()) {
    std::fprintf(stderr, "%s\n", connected.status().ToString().c_str());
    return 1;
  }
  millrace::Session& session = **connected;
  const millrace::BatchSpec& spec = session.spec();
  std::printf("%llu examples an epoch in %llu steps\n",
              static_cast<unsigned long long>(spec.steps.examples),
              static_cast<unsigned long long>(spec.steps_per_epoch));

  for (;;) {
    auto next = session.Next();
    if (!next.ok()) {
      std::fprintf(stderr, "%s\n", next.status().ToString().c_str());
      return 1;
    }
    if (!next->has_value()) {  // the end of an epoch
      std::printf("cursor %s\n", session.cursor().c_str());
      auto more = session.NextEpoch();
      if (!more.ok() || !*more) break;
      continue;
    }
    const millrace::Batch& batch = **next;
    const millrace::DeliveredTensor* labels = batch.Find("node_label");
    std::printf("epoch %llu step %llu: %zu graphs, %zu nodes\n",
                static_cast<unsigned long long>(batch.epoch()),
                static_cast<unsigned long long>(batch.step()), batch.examples(),
                labels != nullptr ? labels->values<std::int32_t>().size() : 0);
  }
  const millrace::SessionStats stats = session.stats();
  std::printf("%llu batches, %.3f s waited\n", static_cast<unsigned long long>(stats.batches),
              stats.total_waited_seconds());
  return 0;
}
