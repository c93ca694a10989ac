// A fixed-size buffer on a 64-byte border, the alignment every kernel may count on. Not zeroed unless asked.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

namespace quern {

template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr size_t kAlignment = 64;
  AlignedBuffer() = default;
  /// @throws std::bad_alloc
  explicit AlignedBuffer(size_t n_elems) { resize(n_elems); }

  /// Contents are lost; grows and shrinks. Allocates only when the capacity does not suffice.
  void resize(size_t n_elems) {
    if (n_elems > capacity_) {
      const size_t n_bytes = (n_elems * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
      data_.reset(static_cast<T*>(std::aligned_alloc(kAlignment, n_bytes)));
      if (!data_) throw std::bad_alloc();
      capacity_ = n_elems;
    }
    size_ = n_elems;
  }
  void zero() { if (size_) std::memset(data_.get(), 0, size_ * sizeof(T)); }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  struct Free { void operator()(T* p) const { std::free(p); } };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace quern
