// 16 random bytes that distinguish the claims of processes.
#pragma once

#include <random>
#include <string>

namespace millrace {

inline std::string MakeNonce() {
  std::random_device device;
  std::string nonce;
  while (nonce.size() < 16) nonce += static_cast<char>(device());
  return nonce;
}

}  // namespace millrace
