// The ways in which a GGUF file can be bad, each with the message it must give; and good files close to them as
// controls.
#pragma once
#include <string>
#include <vector>

#include "bad_gguf/builder.h"

namespace quern::gguf::testing {

struct Case {
  std::string name;
  std::string bytes;
  std::vector<std::string> message;  ///< parts that the message must have; none for a good file
};

inline File with_kv(std::string key_value) {
  File file;
  file.key_values.push_back(std::move(key_value));
  return file;
}

inline File with_tensors(std::vector<std::string> tensors, uint64_t data_bytes) {
  File file;
  file.tensors = std::move(tensors);
  file.data_bytes = data_bytes;
  return file;
}

inline File with_alignment(std::string key_value, uint64_t alignment = 32) {
  File file = with_tensors({tensor("a", {4}, 0, 0), tensor("b", {4}, 0, alignment)}, alignment + 16);
  file.alignment = alignment;
  file.key_values.push_back(std::move(key_value));
  return file;
}

inline std::string cut(std::string bytes, size_t n) {
  bytes.resize(n);
  return bytes;
}

inline std::vector<Case> good_cases() {
  File v2 = with_tensors({tensor("a", {32, 2}, 2, 0)}, 36);
  v2.version = 2;
  const std::string scalars = kv("u8", kU8, Bytes().u8(1)) + kv("i8", kI8, Bytes().u8(255)) +
                              kv("u16", kU16, Bytes().number(uint16_t(7))) +
                              kv("i16", kI16, Bytes().number(int16_t(-7))) +
                              kv("i32", kI32, Bytes().number(int32_t(-9))) + kv("f32", kF32, Bytes().number(1.5f)) +
                              kv("bool", kBool, Bytes().u8(1)) + kv("u64", kU64, Bytes().u64(1ull << 63)) +
                              kv("i64", kI64, Bytes().number(int64_t(-1))) + kv("f64", kF64, Bytes().number(2.5));
  File all_types = with_kv(scalars);
  all_types.n_key_values = 11;
  return {
      {"only metadata", File().bytes(), {}},
      {"no padding after the last key", cut(File().bytes(), 24 + 8 + 20 + 4 + 8 + 5), {}},
      {"version 2", v2.bytes(), {}},
      {"every scalar type", all_types.bytes(), {}},
      {"alignment 64", with_alignment(kv_u32("general.alignment", 64), 64).bytes(), {}},
      {"alignment 8", with_alignment(kv_u32("general.alignment", 8), 16).bytes(), {}},
      {"empty array", with_kv(kv("k", kArray, Bytes().u32(kString).u64(0))).bytes(), {}},
      {"string array", with_kv(kv("k", kArray, Bytes().u32(kString).u64(2).string("").string("x"))).bytes(), {}},
      {"a gap between tensors", with_tensors({tensor("a", {4}, 0, 0), tensor("b", {4}, 0, 4096)}, 4112).bytes(), {}},
      {"tensors out of order", with_tensors({tensor("a", {4}, 0, 32), tensor("b", {4}, 0, 0)}, 48).bytes(), {}},
      {"a type that is known by size only", with_tensors({tensor("a", {64}, 40, 0)}, 36).bytes(), {}},
  };
}

inline std::vector<Case> preamble_cases() {
  File v1, v4, big_endian, tensor_count, key_value_count;
  v1.version = 1;
  v4.version = 4;
  big_endian.version = 0x03000000;
  tensor_count.n_tensors = int64_t(1) << 61;
  key_value_count.n_key_values = int64_t(1) << 60;
  return {
      {"one byte", "G", {"magic", "needs 4 bytes at offset 0"}},
      {"another magic", "ELF!" + std::string(60, '\0'), {"magic at offset 0", "found 'ELF!'", "allowed 'GGUF'"}},
      {"ggml magic", "GGML" + std::string(60, '\0'), {"magic at offset 0", "before GGUF"}},
      {"git-lfs pointer", "version https://git-lfs.github.com/spec/v1\n", {"git-lfs pointer"}},
      {"html page", "<!DOCTYPE html><html></html>", {"HTML page"}},
      {"magic alone", "GGUF", {"version", "needs 4 bytes at offset 4"}},
      {"version 0", "GGUF" + std::string(20, '\0'), {"version at offset 4", "found 0", "allowed 2 or 3"}},
      {"version 1", v1.bytes(), {"version at offset 4", "found 1", "allowed 2 or 3"}},
      {"version 4", v4.bytes(), {"version at offset 4", "found 4", "allowed 2 or 3"}},
      {"big-endian", big_endian.bytes(), {"version at offset 4", "big-endian", "little-endian"}},
      {"no counts", cut(File().bytes(), 12), {"tensor count", "needs 8 bytes at offset 8"}},
      {"2^61 tensors",
       tensor_count.bytes(),
       {"tensor count at offset 8", "found 2305843009213693952", "allowed at most"}},
      {"2^60 keys",
       key_value_count.bytes(),
       {"metadata count at offset 16", "found 1152921504606846976", "allowed at most"}},
  };
}

inline std::vector<Case> metadata_cases() {
  File no_values;
  no_values.key_values = {Bytes().u64(0xffffffffffff).raw("key and some more bytes to make it long enough").data};
  std::string nested;  // an array of arrays of arrays …, 200 deep
  for (int depth = 0; depth < 200; ++depth) nested += Bytes().u32(kArray).u64(1).data;
  File too_few = File();
  too_few.n_key_values = 2;
  too_few.data_bytes = 64;
  const std::string zeros(64, '\0');
  const auto array = [](uint32_t type, uint64_t n) { return kv("k", kArray, Bytes().u32(type).u64(n)); };
  return {
      {"key of 2^48 bytes",
       no_values.bytes(),
       {"length of metadata key 1 of 1 at offset 24", "found 281474976710655 bytes", "allowed at most"}},
      {"key of 70000 bytes",
       with_kv(kv_u32(std::string(70000, 'k'), 1)).bytes(),
       {"length of metadata key 2 of 2", "found 70000", "allowed at most 65535"}},
      {"empty key", with_kv(kv_u32("", 1)).bytes(), {"metadata key 2 of 2 at offset 69", "empty key"}},
      {"fewer keys than counted", too_few.bytes(), {"metadata key 2 of 2 at offset 69", "empty key"}},
      {"key twice",
       with_kv(kv_string("general.architecture", "llama")).bytes(),
       {"at offset 69", "'general.architecture' is there twice"}},
      {"value type 13",
       with_kv(kv("k", 13, Bytes().raw(zeros))).bytes(),
       {"type of metadata 'k' at offset 78", "found 13", "allowed 0 to 12"}},
      {"string past the end",
       with_kv(kv("k", kString, Bytes().u64(1000))).bytes(),
       {"length of metadata 'k' at offset 82", "found 1000 bytes"}},
      {"string of 2^64-1 bytes",
       with_kv(kv("k", kString, Bytes().u64(UINT64_MAX))).bytes(),
       {"length of metadata 'k'", "found 18446744073709551615"}},
      {"value cut off",
       cut(with_kv(kv("k", kU64, Bytes().u64(1))).bytes(), 85),
       {"metadata 'k'", "needs 8 bytes at offset 82"}},
      {"bool of 2",
       with_kv(kv("k", kBool, Bytes().u8(2))).bytes(),
       {"metadata 'k' at offset 82", "found a bool of 2", "allowed 0 or 1"}},
      {"bool of 2 in an array",
       with_kv(array(kBool, 2) + "\x01\x02").bytes(),
       {"metadata 'k' at offset 95", "found a bool of 2"}},
      {"array of arrays",
       with_kv(kv("k", kArray, Bytes().raw(nested))).bytes(),
       {"metadata 'k' at offset 82", "array of arrays"}},
      {"array element type 99",
       with_kv(array(99, 1) + zeros).bytes(),
       {"type of the elements of metadata 'k'", "found 99"}},
      {"array past the end",
       with_kv(array(kF64, 1000)).bytes(),
       {"element count of metadata 'k' at offset 86", "found 1000", "allowed at most"}},
      {"array whose size overflows",
       with_kv(array(kU64, (1ull << 61) + 1)).bytes(),
       {"element count of metadata 'k'", "found 2305843009213693953"}},
      {"string array past the end",
       with_kv(array(kString, 1ull << 60)).bytes(),
       {"element count of metadata 'k'", "found 1152921504606846976"}},
      {"string in an array past the end",
       with_kv(array(kString, 1) + Bytes().u64(5000).data).bytes(),
       {"length of a string in metadata 'k' at offset 94", "found 5000"}},
      {"alignment 0",
       with_alignment(kv_u32("general.alignment", 0)).bytes(),
       {"'general.alignment'", "found 0", "allowed a power of two"}},
      {"alignment 3",
       with_alignment(kv_u32("general.alignment", 3)).bytes(),
       {"'general.alignment'", "found 3", "allowed a power of two"}},
      {"alignment 4",
       with_alignment(kv_u32("general.alignment", 4)).bytes(),
       {"'general.alignment'", "found 4", "from 8 to 1048576"}},
      {"alignment 2^30",
       with_alignment(kv_u32("general.alignment", 1u << 30)).bytes(),
       {"'general.alignment'", "found 1073741824", "from 8 to 1048576"}},
      {"alignment as i32",
       with_alignment(kv("general.alignment", kI32, Bytes().number(int32_t(-32)))).bytes(),
       {"'general.alignment'", "type i32", "allowed u32"}},
      {"alignment as string",
       with_alignment(kv_string("general.alignment", "32")).bytes(),
       {"'general.alignment'", "type string"}},
      {"alignment as array",
       with_alignment(kv("general.alignment", kArray, Bytes().u32(kU32).u64(1).u32(32))).bytes(),
       {"'general.alignment'", "type array"}},
      {"control characters in a key",
       with_kv(kv("a\x1b[31m\n", 13, Bytes().raw(zeros))).bytes(),
       {"'a\\x1b[31m\\n'", "found 13"}},
  };
}

inline std::vector<Case> tensor_cases() {
  constexpr uint64_t kHuge = 1ull << 60;
  const auto one = [](const std::string& info, uint64_t data_bytes = 64) {
    return with_tensors({info}, data_bytes).bytes();
  };
  const Bytes many_dims = Bytes().string("w").u32(0xffffffff).raw(std::string(64, '\1'));
  const Bytes no_dims = Bytes().string("w").u32(0).u32(0).u64(0);
  const Bytes endless_name = Bytes().u64(1ull << 48).raw(std::string(64, 'w'));
  return {
      {"name past the end",
       one(endless_name.data),
       {"length of name of tensor 1 of 1 at offset 69", "found 281474976710656"}},
      {"empty name", one(tensor("", {4}, 0, 0)), {"tensor 1 of 1 at offset 69", "empty name"}},
      {"name twice",
       with_tensors({tensor("blk.0.attn_q.weight", {4}, 0, 0), tensor("blk.0.attn_q.weight", {4}, 0, 32)}, 64).bytes(),
       {"tensor 2 of 2", "'blk.0.attn_q.weight' is there twice"}},
      {"no dimensions",
       one(no_dims.data + std::string(8, '\0')),
       {"number of dimensions of tensor 'w' at offset 78", "found 0", "allowed 1 to 4"}},
      {"five dimensions",
       one(tensor("w", {1, 1, 1, 1, 1}, 0, 0)),
       {"number of dimensions of tensor 'w'", "found 5", "allowed 1 to 4"}},
      {"2^32-1 dimensions",
       one(many_dims.data),
       {"number of dimensions of tensor 'w'", "found 4294967295", "allowed 1 to 4"}},
      {"dimension of 0",
       one(tensor("w", {4, 0}, 0, 0)),
       {"dimension 1 of tensor 'w' at offset 90", "found 0", "allowed 1 or more"}},
      {"elements overflow",
       one(tensor("w", {kHuge, kHuge}, 0, 0)),
       {"number of elements of tensor 'w' at offset 90", "overflows"}},
      {"bytes overflow", one(tensor("w", {1ull << 63}, 0, 0)), {"tensor 'w'", "overflows"}},
      {"offset overflows", one(tensor("w", {4}, 0, UINT64_MAX - 31)), {"end of the data of tensor 'w'", "overflows"}},
      {"type 99",
       one(tensor("blk.0.ffn_up.weight", {4}, 99, 0)),
       {"type of tensor 'blk.0.ffn_up.weight'", "found id 99"}},
      {"type 4, removed", one(tensor("w", {4}, 4, 0)), {"type of tensor 'w'", "found id 4 (Q4_2, removed from GGUF"}},
      {"type 31, removed",
       one(tensor("w", {64}, 31, 0)),
       {"type of tensor 'w'", "found id 31 (Q4_0_4_4, removed from GGUF"}},
      {"row no multiple of 32",
       one(tensor("w", {33, 2}, 2, 0)),
       {"tensor 'w'", "rows of 33 elements", "multiples of 32 for type Q4_0"}},
      {"row no multiple of 256",
       one(tensor("w", {128, 2}, 12, 0), 4096),
       {"tensor 'w'", "rows of 128 elements", "multiples of 256 for type Q4_K"}},
      {"offset not aligned",
       one(tensor("w", {4}, 0, 8)),
       {"offset of tensor 'w'", "found 8", "multiples of the alignment 32"}},
      {"data one byte short",
       one(tensor("w", {4}, 0, 0), 15),
       {"tensor 'w'", "ends at byte 144", "file has 143 bytes"}},
      {"data far past the end", one(tensor("w", {4}, 0, 1ull << 40)), {"tensor 'w'", "its data ends at byte"}},
      {"overlap",
       with_tensors({tensor("a", {16}, 0, 0), tensor("b", {4}, 0, 32)}, 64).bytes(),
       {"tensors 'a' and 'b' overlap", "0 to 64", "starts at 32"}},
      {"same place", with_tensors({tensor("a", {4}, 0, 0), tensor("b", {4}, 0, 0)}, 64).bytes(), {"overlap"}},
      {"contained",
       with_tensors({tensor("a", {4}, 0, 32), tensor("b", {64}, 0, 0)}, 256).bytes(),
       {"tensors 'b' and 'a' overlap"}},
      {"infos cut off", cut(one(tensor("w", {4}, 0, 0)), 100), {"offset of tensor 'w'", "needs 8 bytes"}},
  };
}

}  // namespace quern::gguf::testing
