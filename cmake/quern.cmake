# How a room becomes a library: every .cpp below src/<room> is compiled once; the second and later arguments are the rooms
# it may use (the include matrix is checked by tools/dev/check_layers.py).

add_library(quern_flags INTERFACE)
target_compile_options(quern_flags INTERFACE -ffp-contract=off -fno-fast-math -Wall -Wextra -Wpedantic -Wshadow $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # GCC 12 sees overlaps in std::string that are none
if(QUERN_WERROR)
  target_compile_options(quern_flags INTERFACE -Werror)
endif()
if(QUERN_SANITIZE)
  target_compile_options(quern_flags INTERFACE -fsanitize=${QUERN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
  target_link_options(quern_flags INTERFACE -fsanitize=${QUERN_SANITIZE})
endif()
if(QUERN_FUZZ)
  target_compile_options(quern_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(quern_room name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  if(NOT sources)  # a room of headers only
    add_library(quern_${name} INTERFACE)
    target_include_directories(quern_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
    foreach(dep IN LISTS ARGN)
      target_link_libraries(quern_${name} INTERFACE quern_${dep})
    endforeach()
    return()
  endif()
  add_library(quern_${name} STATIC ${sources})
  target_include_directories(quern_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(quern_${name} PUBLIC fmt::fmt PRIVATE quern_flags)
  foreach(dep IN LISTS ARGN)
    target_link_libraries(quern_${name} PUBLIC quern_${dep})
  endforeach()
endfunction()

# kernels: dispatch and contract in the room itself, one object library per instruction set with flags of its own. Each of
# these exports its table and nothing else (anonymous namespaces), so that the linker can never keep, say, the AVX-512 copy
# of a shared inline function for everyone.
function(quern_kernels)
  quern_room(kernels ${ARGN})
  set(isa_flags_scalar "")
  set(isa_flags_avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(isa_flags_avx512 -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mprefer-vector-width=512)
  set(level -O3)
  if(QUERN_SANITIZE)  # -O3 of the unrolled loops would keep the compiler busy for a quarter of an hour
    set(level -O1)
  endif()
  foreach(isa scalar avx2 avx512)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/${isa}/*.cpp)
    add_library(quern_kernels_${isa} OBJECT ${sources})
    target_include_directories(quern_kernels_${isa} PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_compile_options(quern_kernels_${isa} PRIVATE ${isa_flags_${isa}} ${level} -fno-math-errno -fno-trapping-math)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # GCC 12 takes its own _mm512_undefined for a bug of ours
      target_compile_options(quern_kernels_${isa} PRIVATE -Wno-uninitialized -Wno-maybe-uninitialized)
    endif()
    target_link_libraries(quern_kernels_${isa} PRIVATE quern_flags fmt::fmt)
    target_sources(quern_kernels PRIVATE $<TARGET_OBJECTS:quern_kernels_${isa}>)
  endforeach()
endfunction()
