/// The decoder for Node. Its only caller, `trainer/sampler/pass/native`, checks the values of the arguments.

#include <node_api.h>

#include <memory>
#include <string>
#include <vector>

#include "decoder.h"

namespace longhaul {
namespace {

void check(napi_env env, napi_status status) {
  if (status != napi_ok) throw std::string("the decoder was called with an argument of the wrong type");
  (void)env;
}

/// Arguments of a call, taken one after the other.
class Arguments {
 public:
  Arguments(napi_env env, napi_callback_info info) : Arguments(env, kMost) {
    size_t count = kMost;
    check(env, napi_get_cb_info(env, info, &count, values_.data(), nullptr, nullptr));
  }

  napi_value next() { return values_[at_++]; }

  double number() {
    double value;
    check(env_, napi_get_value_double(env_, next(), &value));
    return value;
  }
  int integer() { return static_cast<int>(number()); }

  template <typename T>
  T* array(napi_typedarray_type type, size_t* size = nullptr) { return arrayOf<T>(next(), type, size); }
  const int* integers(size_t* size = nullptr) { return array<int>(napi_int32_array, size); }

  template <typename T>
  T* arrayOf(napi_value value, napi_typedarray_type type, size_t* size) {
    napi_typedarray_type found;
    size_t length;
    void* data;
    check(env_, napi_get_typedarray_info(env_, value, &found, &length, &data, nullptr, nullptr));
    if (found != type) throw std::string("an array has the wrong type");
    if (size != nullptr) *size = length;
    return static_cast<T*>(data);
  }

  template <typename T>
  T& held() {
    void* data;
    check(env_, napi_get_value_external(env_, next(), &data));
    auto& held = *static_cast<std::unique_ptr<T>*>(data);
    if (held == nullptr) throw std::string("the model or decoder was disposed already");
    return *held;
  }

  /// vocabulary, hidden, inner, layers, heads, kvHeads, headDim, positions, headNorms, biases, tied; then epsilon.
  Shape shape() {
    size_t size;
    const int* n = integers(&size);
    if (size != 11) throw std::string("a shape has eleven numbers");
    return {n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8] != 0, n[9] != 0, n[10] != 0, static_cast<float>(number())};
  }

  /// The values of a JavaScript array, one after the other: arguments that `held` reads.
  Arguments elements() {
    const napi_value list = next();
    uint32_t count;
    check(env_, napi_get_array_length(env_, list, &count));
    Arguments found(env_, count);
    for (uint32_t i = 0; i < count; i++) check(env_, napi_get_element(env_, list, i, &found.values_[i]));
    return found;
  }
  size_t count() const { return values_.size(); }

  void dispose() {
    void* data;
    check(env_, napi_get_value_external(env_, next(), &data));
    static_cast<std::unique_ptr<Disposable>*>(data)->reset();
  }

  struct Disposable {
    virtual ~Disposable() = default;
  };

 private:
  static constexpr size_t kMost = 20;
  Arguments(napi_env env, size_t count) : env_(env), values_(count) {}
  napi_env env_;
  std::vector<napi_value> values_;
  size_t at_ = 0;
};

template <typename T>
struct Held : Arguments::Disposable {
  T value;
  template <typename... Given>
  explicit Held(Given&&... given) : value(std::forward<Given>(given)...) {}
};

template <typename T>
napi_value hold(napi_env env, std::unique_ptr<Arguments::Disposable> made) {
  auto* holder = new std::unique_ptr<Arguments::Disposable>(std::move(made));
  napi_value result;
  const auto release = [](napi_env, void* data, void*) { delete static_cast<std::unique_ptr<Arguments::Disposable>*>(data); };
  check(env, napi_create_external(env, holder, release, nullptr, &result));
  return result;
}

template <typename T>
T& valueOf(Arguments& arguments) {
  return static_cast<Held<T>&>(arguments.held<Arguments::Disposable>()).value;
}

napi_value createModel(napi_env env, Arguments& arguments) {
  const Shape shape = arguments.shape();
  size_t cosines, sines;
  const float* cosine = arguments.array<float>(napi_float32_array, &cosines);
  const float* sine = arguments.array<float>(napi_float32_array, &sines);
  if (cosines != sines || cosines != static_cast<size_t>(shape.positions) * (shape.headDim / 2)) throw std::string("the angles have the wrong shape");
  return hold<Model>(env, std::make_unique<Held<Model>>(shape, cosine, sine));
}

napi_value fillModel(napi_env, Arguments& arguments) {
  Model& model = valueOf<Model>(arguments);
  const int tensor = arguments.integer();
  const double from = arguments.number();
  size_t count;
  const float* values = arguments.array<float>(napi_float32_array, &count);
  if (!(from >= 0)) throw std::string("the values do not fit the tensor");
  model.fill(tensor, static_cast<size_t>(from), values, count);
  return nullptr;
}

napi_value createDecoder(napi_env env, Arguments& arguments) {
  const Shape shape = arguments.shape();
  const int blocks = arguments.integer(), threads = arguments.integer();
  return hold<Decoder>(env, std::make_unique<Held<Decoder>>(shape, blocks, threads));
}

napi_value createAdapter(napi_env env, Arguments& arguments) {
  const Shape shape = arguments.shape();
  size_t count;
  const int* ranks = arguments.integers(&count);
  if (count != static_cast<size_t>(shape.layers) * kModulesOfLayer + 1) throw std::string("an adapter has a rank for each module");
  return hold<Adapter>(env, std::make_unique<Held<Adapter>>(shape, ranks));
}

napi_value fillAdapter(napi_env, Arguments& arguments) {
  Adapter& adapter = valueOf<Adapter>(arguments);
  const int module = arguments.integer(), side = arguments.integer();
  const float scaling = static_cast<float>(arguments.number());
  size_t count;
  const float* values = arguments.array<float>(napi_float32_array, &count);
  adapter.fill(module, side == kSideA ? kSideA : kSideB, scaling, values, count);
  return nullptr;
}

napi_value dispose(napi_env, Arguments& arguments) {
  arguments.dispose();
  return nullptr;
}

napi_value copyBlock(napi_env, Arguments& arguments) {
  Decoder& decoder = valueOf<Decoder>(arguments);
  const int from = arguments.integer();
  decoder.cache.copy(from, arguments.integer());
  return nullptr;
}

napi_value forward(napi_env, Arguments& arguments) {
  Decoder& decoder = valueOf<Decoder>(arguments);
  const Model& model = valueOf<Model>(arguments);
  size_t tokens, begins, ends;
  Plan plan{};
  plan.ids = arguments.integers(&tokens);
  plan.starts = arguments.integers();
  plan.begins = arguments.integers(&begins);
  plan.tables = arguments.integers();
  plan.tableStarts = arguments.integers();
  Arguments held = arguments.elements();
  size_t sequences;
  const int* numbers = arguments.integers(&sequences);
  std::vector<const Adapter*> adapters;
  for (size_t i = 0; i < held.count(); i++) {
    adapters.push_back(&valueOf<Adapter>(held));
    if (!adapters.back()->fits(model.shape)) throw std::string("an adapter has another shape than the model");
  }
  std::vector<const Adapter*> ofSequences(begins, nullptr);
  for (size_t s = 0; s < begins; s++) {
    if (sequences != begins || numbers[s] >= static_cast<int>(adapters.size())) throw std::string("a sequence has no such adapter");
    if (numbers[s] >= 0) ofSequences[s] = adapters[numbers[s]];
  }
  plan.adapters = ofSequences.data();
  plan.endTokens = arguments.integers(&ends);
  plan.temperatures = arguments.array<double>(napi_float64_array);
  plan.uniforms = arguments.array<double>(napi_float64_array);
  plan.limit = arguments.integer();
  plan.chosen = arguments.array<int>(napi_int32_array);
  plan.logprobs = arguments.array<double>(napi_float64_array);
  plan.logits = arguments.array<float>(napi_float32_array);
  plan.tokens = static_cast<int>(tokens);
  plan.sequences = static_cast<int>(begins);
  plan.ends = static_cast<int>(ends);
  decoder.forward(model, plan);
  return nullptr;
}

/// A function of the module: its exceptions become JavaScript errors.
template <napi_value (*body)(napi_env, Arguments&)>
napi_value guarded(napi_env env, napi_callback_info info) {
  try {
    Arguments arguments(env, info);
    return body(env, arguments);
  } catch (const std::string& message) {
    napi_throw_error(env, nullptr, message.c_str());
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, nullptr, "there is no memory for the decoder");
  }
  return nullptr;
}

template <napi_value (*body)(napi_env, Arguments&)>
void define(napi_env env, napi_value exports, const char* name) {
  napi_value function;
  check(env, napi_create_function(env, name, NAPI_AUTO_LENGTH, guarded<body>, nullptr, &function));
  check(env, napi_set_named_property(env, exports, name, function));
}

bool supported() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace
}  // namespace longhaul

NAPI_MODULE_INIT() {
  using namespace longhaul;
  if (!supported()) {
    napi_throw_error(env, nullptr, "this processor lacks AVX2 or FMA, which the decoder was built for");
    return nullptr;
  }
  define<createModel>(env, exports, "createModel");
  define<fillModel>(env, exports, "fillModel");
  define<createDecoder>(env, exports, "createDecoder");
  define<createAdapter>(env, exports, "createAdapter");
  define<fillAdapter>(env, exports, "fillAdapter");
  define<dispose>(env, exports, "dispose");
  define<copyBlock>(env, exports, "copyBlock");
  define<forward>(env, exports, "forward");
  return exports;
}
