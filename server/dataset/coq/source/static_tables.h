// The static tables of a plan (v1::Static), written as they are serialized: straight from the
// index, with no message in between that would hold a string for every definition.
//
// Free functions, thread-safe.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/dataset/coq/source/context_table.h"
#include "server/dataset/coq/source/coq_tables.h"

namespace millrace {

/// Writes a v1::Static with the vocabulary of `tables` and, where they are given, contexts: the
/// bytes that the message would give. Reads the index twice.
void WriteStaticTables(const CoqTables& tables, const ContextTable* contexts,
                       google::protobuf::io::CodedOutputStream& out);

}  // namespace millrace
